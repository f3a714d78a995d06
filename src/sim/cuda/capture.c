/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/pool.h"
#include "sim/cuda/stream.h"

CUresult capture_put(struct stream *s, struct work *w)
{
	(void)s;
	work_clear(w);
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult capture_unsafe(void)
{
	return CUDA_SUCCESS;
}

CUresult capture_unsafe_in(struct stream *s)
{
	(void)s;
	return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult capture_unsafe_ctx(struct context *c)
{
	(void)c;
	return CUDA_SUCCESS;
}

CUresult capture_legacy(struct context *c)
{
	(void)c;
	return CUDA_SUCCESS;
}

CUresult capture_record(struct stream *s, struct event *e)
{
	(void)s;
	(void)e;
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult capture_wait(struct stream *s, struct event *e)
{
	(void)s;
	(void)e;
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult capture_alloc(struct stream *s, const CUmemPoolProps *props, uint64_t bytes,
	CUdeviceptr *ret)
{
	(void)s;
	(void)props;
	(void)bytes;
	(void)ret;
	return CUDA_ERROR_NOT_SUPPORTED;
}

void capture_event_forget(struct event *e)
{
	(void)e;
}

CUresult capture_event_touched(struct event *e)
{
	(void)e;
	return CUDA_ERROR_CAPTURED_EVENT;
}

void capture_forget(struct stream *s)
{
	(void)s;
}

CUresult graph_free(struct range *r)
{
	(void)r;
	return CUDA_ERROR_INVALID_VALUE;
}
