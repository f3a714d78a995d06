/* SPDX-License-Identifier: Apache-2.0 */
#include "container/cuda/stream.h"

#include "container/cuda/memory/pool-reservation.h"
#include "container/cuda/driver.h"
#include "container/sys.h"

bool stream_captures(CUstream stream, bool own)
{
	unsigned int status = 0;
	CUresult r = own ? REAL(cuStreamIsCapturing_ptsz)(stream, &status)
			 : REAL(cuStreamIsCapturing)(stream, &status);

	/* 906: stream 0, while other streams of its context capture. The driver accepts no work for stream 0
	 * then. */
	return status || r == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

CUresult stream_device(CUstream stream, bool own, CUdevice *ret)
{
	CUcontext now = NULL, its;
	CUresult r;

	if (!stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD)
		return REAL(cuCtxGetDevice)(ret);
	r = own ? REAL(cuStreamGetCtx_ptsz)(stream, &its) : REAL(cuStreamGetCtx)(stream, &its);
	if (r)
		return r;
	if (!REAL(cuCtxGetCurrent)(&now) && now == its)
		return REAL(cuCtxGetDevice)(ret);
	r = REAL(cuCtxPushCurrent_v2)(its);
	if (r)
		return r;
	r = REAL(cuCtxGetDevice)(ret);
	(void)REAL(cuCtxPopCurrent_v2)(&its);
	return r;
}

bool stream_wait_idle(CUstream stream, bool own)
{
	int64_t end = sys_now() + STREAM_WAIT_MS;
	struct pool_reservation_wait w;
	unsigned int mode;
	CUresult r;

	if (stream_captures(stream, own))
		return false;
	pool_reservation_wait_begin(&w);
	mode = quiet_begin();
	for (;;) {
		r = own ? REAL(cuStreamQuery_ptsz)(stream) : REAL(cuStreamQuery)(stream);
		if (r != CUDA_ERROR_NOT_READY || sys_now() >= end)
			break;
		(void)sys_wait(-1, 0, sys_now() + 1);
	}
	/* A query does not make the driver register freed memory. The synchronization does, and returns at
	 * once here. */
	if (!r)
		r = own ? REAL(cuStreamSynchronize_ptsz)(stream)
			: REAL(cuStreamSynchronize)(stream);
	quiet_end(mode);
	pool_reservation_wait_end(&w);
	return !r;
}
