/* SPDX-License-Identifier: Apache-2.0 */
/* One row for each capturing stream, so that a hook can end its captures when the stream or its context
 * goes. In a child of fork the driver is unusable and the rows are gone. */
#include "container/cuda/work/work.h"

#include "container/cuda/device.h"
#include "container/cuda/stream.h"
#include "container/charges/alloc-table.h"
#include "container/sys.h"

#define OWN (UINT64_C(1) << 63) /* marks a key that has a thread ID in place of a handle */

/* The stream handle. A thread's own stream has the same handle in all threads, so its key is the thread ID.
 * One thread may have such a stream in several contexts; the row counts them. */
static uint64_t get_capture_key(CUstream stream, bool own)
{
	if (stream == CU_STREAM_PER_THREAD || (!stream && own))
		return OWN | (uint64_t)syscall(SYS_gettid);
	return (uintptr_t)stream;
}

static uint64_t get_capture_context(CUstream stream, bool own)
{
	CUcontext context = NULL;
	CUresult r = own ? REAL(cuStreamGetCtx_ptsz)(stream, &context)
			 : REAL(cuStreamGetCtx)(stream, &context);

	return r ? device_current_context() : (uintptr_t)context;
}

void submit_capture_row_gone(const struct alloc_row *row)
{
	for (uint32_t i = 0; i < row->count; i++)
		gate_capture_ended();
}

/* Asks for the context before the capture begins: during a capture some queries are not allowed. */
static struct alloc_row begin_capture_row(CUstream stream, bool own)
{
	gate_capture_begins();
	return (struct alloc_row){ .count = 1, .context = get_capture_context(stream, own) };
}

static CUresult record_capture_begin(CUstream stream, bool own, const struct alloc_row *row,
	CUresult r)
{
	if (r)
		gate_capture_ended();
	else /* without memory for a row, the capture counts forever: that costs time but breaks nothing */
		(void)alloc_table_join(ALLOC_CAPTURE, get_capture_key(stream, own), row);
	return r;
}

static CUresult record_capture_end(CUstream stream, bool own, CUresult r)
{
	uint64_t key = get_capture_key(stream, own);
	struct alloc_row row;

	if (!alloc_table_get(ALLOC_CAPTURE, key, &row) || (r && stream_captures(stream, own)))
		return r;
	if (alloc_table_count(ALLOC_CAPTURE, key, -1, NULL) >= 0)
		gate_capture_ended();
	return r;
}

#define BEGIN(name, own)                                                            \
	HOOK CUresult name(CUstream stream)                                         \
	{                                                                           \
		struct alloc_row row;                                               \
                                                                                    \
		if (submit_off())                                                   \
			return REAL(name)(stream);                                  \
		row = begin_capture_row(stream, own);                               \
		return record_capture_begin(stream, own, &row, REAL(name)(stream)); \
	}

#define BEGIN_MODE(name, own)                                                             \
	HOOK CUresult name(CUstream stream, unsigned int mode)                            \
	{                                                                                 \
		struct alloc_row row;                                                     \
                                                                                          \
		if (submit_off())                                                         \
			return REAL(name)(stream, mode);                                  \
		row = begin_capture_row(stream, own);                                     \
		return record_capture_begin(stream, own, &row, REAL(name)(stream, mode)); \
	}

#define BEGIN_GRAPH(name, own)                                                       \
	HOOK CUresult name(CUstream stream, CUgraph graph, const CUgraphNode *after, \
		const CUgraphEdgeData *edges, size_t n, unsigned int mode)           \
	{                                                                            \
		struct alloc_row row;                                                \
                                                                                     \
		if (submit_off())                                                    \
			return REAL(name)(stream, graph, after, edges, n, mode);     \
		row = begin_capture_row(stream, own);                                \
		return record_capture_begin(stream, own, &row,                       \
			REAL(name)(stream, graph, after, edges, n, mode));           \
	}

#define BEGIN_AGAIN(name, own)                                                                \
	HOOK CUresult name(CUstream stream, unsigned int mode, CUgraph graph, void *callback, \
		void *arg)                                                                    \
	{                                                                                     \
		struct alloc_row row;                                                         \
                                                                                              \
		if (submit_off())                                                             \
			return REAL(name)(stream, mode, graph, callback, arg);                \
		row = begin_capture_row(stream, own);                                         \
		return record_capture_begin(stream, own, &row,                                \
			REAL(name)(stream, mode, graph, callback, arg));                      \
	}

#define BEGIN_CIG(name, own)                                                                \
	HOOK CUresult name(CUstream stream, void *params)                                   \
	{                                                                                   \
		struct alloc_row row;                                                       \
                                                                                            \
		if (submit_off())                                                           \
			return REAL(name)(stream, params);                                  \
		row = begin_capture_row(stream, own);                                       \
		return record_capture_begin(stream, own, &row, REAL(name)(stream, params)); \
	}

#define END_CIG(name, own)                                                  \
	HOOK CUresult name(CUstream stream)                                 \
	{                                                                   \
		if (submit_off())                                           \
			return REAL(name)(stream);                          \
		return record_capture_end(stream, own, REAL(name)(stream)); \
	}

#define END(name, own)                                                             \
	HOOK CUresult name(CUstream stream, CUgraph *graph)                        \
	{                                                                          \
		if (submit_off())                                                  \
			return REAL(name)(stream, graph);                          \
		return record_capture_end(stream, own, REAL(name)(stream, graph)); \
	}

BEGIN(cuStreamBeginCapture, false)
BEGIN(cuStreamBeginCapture_ptsz, true)
BEGIN_MODE(cuStreamBeginCapture_v2, false)
BEGIN_MODE(cuStreamBeginCapture_v2_ptsz, true)
BEGIN_GRAPH(cuStreamBeginCaptureToGraph, false)
BEGIN_GRAPH(cuStreamBeginCaptureToGraph_ptsz, true)
BEGIN_AGAIN(cuStreamBeginRecaptureToGraph, false)
BEGIN_AGAIN(cuStreamBeginRecaptureToGraph_ptsz, true)
BEGIN_CIG(cuStreamBeginCaptureToCig, false)
BEGIN_CIG(cuStreamBeginCaptureToCig_ptsz, true)
END_CIG(cuStreamEndCaptureToCig, false)
END_CIG(cuStreamEndCaptureToCig_ptsz, true)
END(cuStreamEndCapture, false)
END(cuStreamEndCapture_ptsz, true)

/* The row is removed before the driver call: another thread may be given the same handle at once. */
#define DESTROY(name)                                                                  \
	HOOK CUresult name(CUstream stream)                                            \
	{                                                                              \
		bool captured;                                                         \
		struct alloc_row row;                                                  \
		CUresult r;                                                            \
                                                                                       \
		if (submit_off())                                                      \
			return REAL(name)(stream);                                     \
		captured = alloc_table_remove(ALLOC_CAPTURE, (uintptr_t)stream, &row); \
		gate_handle_leaves();                                                  \
		r = REAL(name)(stream);                                                \
		if (captured && r)                                                     \
			(void)alloc_table_put(ALLOC_CAPTURE, (uintptr_t)stream, &row); \
		else if (captured)                                                     \
			submit_capture_row_gone(&row);                                 \
		return r;                                                              \
	}

DESTROY(cuStreamDestroy)
DESTROY(cuStreamDestroy_v2)
