/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Streams that capture. While one captures, no thread may record an event of a whole context (gate/gate-thread.h).
 * A capture counts from before the call that begins it, until one of these:
 *
 *	cuStreamEndCapture() ends it, with any result; the call also ends an invalidated capture. If the call
 *	fails and the stream still captures (another thread began the capture), the capture goes on.
 *	Its stream is destroyed, or its context is destroyed or reset.
 *
 * A capture that the program never ends counts as long as its stream exists, as it does for the driver. Until then
 * each submission has an event of its own, which is exact and costs more. If a thread ends during a capture of its
 * own stream, the capture counts until its context goes. Thread: any.
 */
#include "container/cuda/driver.h"

/* Ends the captures of a row that a context's end removed (alloc-table.h, ALLOC_CAPTURE). */
struct alloc_row;
void capture_row_gone(const struct alloc_row *row);

/* Functions of newer drivers: recapture of CUDA 13.3, and capture to command lists of graphics. Command
 * lists are work only when the program executes them. */
CUresult cuStreamBeginRecaptureToGraph(CUstream stream, unsigned int mode, CUgraph graph,
	void *callback, void *arg);
CUresult cuStreamBeginRecaptureToGraph_ptsz(CUstream stream, unsigned int mode, CUgraph graph,
	void *callback, void *arg);
CUresult cuStreamBeginCaptureToCig(CUstream stream, void *params);
CUresult cuStreamBeginCaptureToCig_ptsz(CUstream stream, void *params);
CUresult cuStreamEndCaptureToCig(CUstream stream);
CUresult cuStreamEndCaptureToCig_ptsz(CUstream stream);
