/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Streams that a program began to capture: while there is one, no event of a whole context may be
 * recorded (gate/gate-thread.h). A capture counts from before its beginning until
 *
 *	cuStreamEndCapture() has ended it, whatever that answers: also an invalidated one ends by it. If
 *	it answers an error and the stream still captures (another thread began it), it goes on
 *	its stream, or its context, is destroyed or reset
 *
 * One that the program never ends counts for as long as its stream is there, as it is there for the
 * driver too: work is then accounted by an event for each submission, which is exact and costs more.
 * A thread's own stream that ends in a capture counts until its context goes. Thread: any.
 */
#include "container/cuda/driver.h"

/* Captures under this key are over: for who drops a context's rows (rows.h, ALLOC_CAPTURE). */
struct alloc_row;
void capture_row_gone(const struct alloc_row *row);

/* Functions of newer drivers: recapture of CUDA 13.3; to command lists of graphics, which are work when those
 * are executed. */
CUresult cuStreamBeginRecaptureToGraph(CUstream stream, unsigned int mode, CUgraph graph,
	void *callback, void *arg);
CUresult cuStreamBeginRecaptureToGraph_ptsz(CUstream stream, unsigned int mode, CUgraph graph,
	void *callback, void *arg);
CUresult cuStreamBeginCaptureToCig(CUstream stream, void *params);
CUresult cuStreamBeginCaptureToCig_ptsz(CUstream stream, void *params);
CUresult cuStreamEndCaptureToCig(CUstream stream);
CUresult cuStreamEndCaptureToCig_ptsz(CUstream stream);
