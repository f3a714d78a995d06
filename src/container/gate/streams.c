/* SPDX-License-Identifier: Apache-2.0 */
#include "container/gate/streams.h"

#include "container/cuda/device.h"
#include "container/cuda/stream.h"

static int ask_stream_gpu(CUstream stream, bool own)
{
	CUdevice device;

	if (!stream)
		return device_current_gpu();
	return stream_device(stream, own, &device) ? -1 : device_find_gpu(device);
}

static struct known_stream *pick_entry(struct streams *streams, CUstream stream)
{
	uint64_t hash = (uint64_t)(uintptr_t)stream * UINT64_C(0x9e3779b97f4a7c15);

	return &streams->known[(hash >> 32) % STREAMS_KNOWN];
}

/* Each load acquires, so the second load of the version comes last. */
static bool read_entry(const struct known_stream *k, CUcontext context, CUstream stream,
	uint64_t handles, int *gpu)
{
	uint32_t version = atomic_load_explicit(&k->version, memory_order_acquire);
	bool same = atomic_load_explicit(&k->context, memory_order_acquire) == context &&
		    atomic_load_explicit(&k->stream, memory_order_acquire) == stream &&
		    atomic_load_explicit(&k->handles, memory_order_acquire) == handles;

	*gpu = atomic_load_explicit(&k->gpu, memory_order_acquire);
	return same && !(version & 1) &&
	       atomic_load_explicit(&k->version, memory_order_relaxed) == version;
}

/* Each store releases, so a thread that loads one of them finds the odd version, or a later one. */
static void write_entry(struct known_stream *k, CUcontext context, CUstream stream,
	uint64_t handles, int gpu)
{
	uint32_t version = atomic_load_explicit(&k->version, memory_order_relaxed);

	if (version & 1 || !atomic_compare_exchange_strong_explicit(&k->version, &version,
				   version + 1, memory_order_acquire, memory_order_relaxed))
		return;
	atomic_store_explicit(&k->context, context, memory_order_release);
	atomic_store_explicit(&k->stream, stream, memory_order_release);
	atomic_store_explicit(&k->handles, handles, memory_order_release);
	atomic_store_explicit(&k->gpu, gpu, memory_order_release);
	atomic_store_explicit(&k->version, version + 2, memory_order_release);
}

int streams_find_gpu(struct streams *streams, CUstream stream, bool own)
{
	/* Loaded before the driver answers: an answer that a destroyed stream outdates is not found again. */
	uint64_t handles = atomic_load(&streams->handles) + 1;
	struct known_stream *k = pick_entry(streams, stream);
	CUcontext context = NULL;
	int gpu;

	if (REAL(cuCtxGetCurrent)(&context) || !context)
		return ask_stream_gpu(stream, own);
	if (read_entry(k, context, stream, handles, &gpu))
		return gpu;
	gpu = ask_stream_gpu(stream, own);
	if (gpu >= 0)
		write_entry(k, context, stream, handles, gpu);
	return gpu;
}

void streams_handle_leaves(struct streams *streams)
{
	(void)atomic_fetch_add(&streams->handles, 1);
}
