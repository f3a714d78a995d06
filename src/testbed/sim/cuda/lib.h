/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The simulated libcuda.so.1: declarations for all its functions.
 *
 * Lock. One lock guards everything in a process: handles, the address map, the queues of the streams. A thread
 * frees the lock while it copies device memory (except single words), runs a callback of the program, or waits for
 * work to complete. A thread keeps the lock while it waits for an answer of the device daemon or of an MPS server.
 *
 * Threads. Two threads of the library do the work of the streams (stream/queue.c). The first such work starts
 * them. The device daemon (sim/device) owns what processes share: memory, and the time of the GPU.
 *
 * Folders. This folder declares what several of them need:
 *
 *	memory/  the address map: allocations, arrays, pools, virtual memory; copies
 *	stream/  streams, events, and the queues and threads behind them
 *	graph/   graphs, and streams that capture
 *	module/  modules, and the launch of their kernels
 *
 * Order of checks in a call:
 *
 *	1. initialized? (3)
 *	2. a context? (201; 709 if it is destroyed; the sticky error of a broken one)
 *	3. arguments (1)
 *	4. handles (400)
 *	5. capture (900 to 908)
 *
 * In the child of a fork of an initialized process all calls return 3. Once exit() has begun all return 4.
 *
 * Handles are pointers to objects. The library reuses the memory of an object only for objects of the same kind.
 * So the library can recognize a destroyed object's handle without touching other memory.
 *
 * As a guest in other programs the library never exits, never asserts and takes no signals. The library prints
 * nothing, except one warning of cuGetExportTable(). Thread: any.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/cuda-api.h"
#include "abi/cuda-functions.h"
#include "lib/base/cleanup.h"
#include "lib/base/units.h"
#include "testbed/sim/cuda/stub.h"
#include "testbed/sim/cuda/wire.h"
#include "testbed/sim/model.h"

#define DECLARE_(name, params) EXPORT CUresult name params;
CUDA_FUNCTIONS(DECLARE_)
#undef DECLARE_

#define GRANULE     SIM_DEVICE_GRANULE /* of device memory */
#define MAX_DEVICES 64

/* In functions that end in _ptsz and _ptds, stream 0 is the default stream of the calling thread. */
#define PER_THREAD(stream) ((stream) ? (stream) : CU_STREAM_PER_THREAD)

/* --- objects --- */

enum obj_kind {
	OBJ_FREE,
	OBJ_CONTEXT,
	OBJ_STREAM,
	OBJ_EVENT,
	OBJ_MODULE,
	OBJ_FUNCTION,
	OBJ_ARRAY,
	OBJ_MIPMAP,
	OBJ_POOL,
	OBJ_GRAPH,
	OBJ_NODE,
	OBJ_EXEC,
	OBJ_EXTERNAL,
	OBJ_USER,
	OBJ_MEMORY, /* what cuMemCreate() returns */
	OBJ_KINDS
};

struct sim_cuda_object {
	uint32_t magic;               /* tells the kind */
	uint32_t serial;              /* number of the object in this memory */
	struct sim_cuda_object *next; /* free: the next free one */
};

/*
 * Both need the lock. obj_new() returns a zeroed object, except for its head. NULL: no memory. @size is the size of the
 * kind. obj_drop() makes the handle invalid and keeps the memory for the next object of the kind.
 */
void *obj_new(enum obj_kind kind, size_t size);
void obj_drop(void *object, enum obj_kind kind);
bool obj_is(const void *object, enum obj_kind kind); /* NULL: no */

/* --- devices --- */

struct sim_cuda_pool;

struct sim_cuda_device {
	uint32_t slot;        /* of the simulated node */
	struct sim_keys keys; /* a MIG device: its own values where it has any */
	uint32_t gi, ci;      /* SIM_NO_INSTANCE: a whole GPU */
	char board[48];       /* UUID of its GPU */
	unsigned char uuid[16];
	struct sim_cuda_ctx *primary; /* made once */
	unsigned primary_refs, primary_flags;
	struct sim_cuda_pool *default_pool, *current_pool, *graph_pool;
};

/* Contexts. */

#define LIMITS   9
#define CODE_MAX 64

struct sim_cuda_ctx {
	struct sim_cuda_object obj;
	struct sim_cuda_device *device;
	uint64_t id;
	bool primary, active; /* a primary context is never freed, only deactivated */
	unsigned flags, api_version, attached;
	unsigned cache_config, shared_config;
	uint64_t daemon_id;
	int mps_fd; /* connection to the MPS server while active */
	size_t limits[LIMITS];
	uint64_t limit_bytes; /* device memory that the limits cost */
	CUresult error;       /* what broke the context; sticky */
	struct sim_cuda_stream *legacy, *streams;
	struct sim_cuda_queue *fence; /* records events of the whole context */
	struct sim_cuda_queue *gate;  /* waits for events on behalf of the whole context */
	struct sim_cuda_ctx *next;
	struct physical_memory *code[CODE_MAX]; /* memory of modules */
	size_t code_count, code_used;
	struct sim_cuda_array *arrays;
	struct mipmap *mipmaps;
};

/* Work of a stream, or of a node of a graph. */

enum work_kind {
	WORK_EMPTY,
	WORK_KERNEL,
	WORK_COPY,
	WORK_SET,
	WORK_HOST,
	WORK_CALLBACK,
	WORK_RECORD,
	WORK_WAIT_EVENT,
	WORK_WAIT_VALUE,
	WORK_WRITE_VALUE,
	WORK_FREE,  /* memory of a pool or of a graph */
	WORK_ALLOC, /* nodes only */
	WORK_CHILD, /* nodes only */
};

struct cuda_work {
	enum work_kind kind;
	union {
		struct {
			struct function *function;
			unsigned grid[3], block[3], shared;
			unsigned char *args; /* allocated here, as the kernel reads them */
			size_t args_len;
			bool programmatic; /* may begin before the previous kernel ends; only stored */
		} kernel;
		CUDA_MEMCPY3D copy;
		CUDA_MEMSET_NODE_PARAMS set;
		CUDA_HOST_NODE_PARAMS host;
		struct {
			CUstreamCallback fn;
			CUstream stream;
			void *data;
		} callback;
		struct {
			struct sim_cuda_event *event;
			uint64_t generation; /* of the event */
		} event;
		struct {
			CUdeviceptr at;
			uint64_t value;
			unsigned flags;
			bool wide;
		} value;
		CUdeviceptr free;
		CUDA_MEM_ALLOC_NODE_PARAMS alloc;
		struct graph *child;
	};
};

/* work_copy() makes a deep copy: arguments and child graphs. False: no memory. work_clear() frees the arguments. */
bool work_copy(struct cuda_work *to, const struct cuda_work *from);
void work_clear(struct cuda_work *w);

/* --- the process --- */

struct sim_cuda_lib {
	pthread_mutex_t lock;
	int driver_version;
	unsigned device_count;
	struct sim_cuda_device devices[MAX_DEVICES];
	struct sim_cuda_ctx *contexts;
	uint64_t last_id;
	unsigned captures;
	uint64_t launch_ns, event_ns; /* time that one call costs */
};

/* The only object. .lock guards it. */
extern struct sim_cuda_lib sim_cuda;

/*
 * The start of a function. On success the calling thread holds the lock, on an error it does not. sim_cuda_enter_ctx()
 * also finds the calling thread's context, sim_cuda_enter_device() the device.
 */
CUresult sim_cuda_enter(void);
CUresult sim_cuda_enter_ctx(struct sim_cuda_ctx **ret);
CUresult sim_cuda_enter_device(CUdevice d, struct sim_cuda_device **ret);

/*
 * The end of a function: frees the lock, returns @r. Inline, so that a static analyzer sees in each file that an
 * error stays one.
 */
static inline CUresult sim_cuda_leave(CUresult r)
{
	(void)pthread_mutex_unlock(&sim_cuda.lock);
	return r;
}

/* True in the child of a fork of an initialized process. */
bool lib_is_orphan(void);

/* The calling thread's context. NULL: it has none, or a destroyed one; @r is the error. */
struct sim_cuda_ctx *ctx_current(CUresult *r);
CUresult ctx_check(const struct sim_cuda_ctx *c); /* 0, 709 or the error that broke it */
struct sim_cuda_ctx *ctx_of(CUcontext handle);    /* NULL: no context */
uint64_t thread_id(void);                         /* never 0, never used twice */

/* A kernel of @c made an error that no kernel may make. The other clients of its MPS server fail too. */
void ctx_fault(struct sim_cuda_ctx *c, CUresult error);

/* An attribute of a device by its number, which is in range. */
int device_attribute(const struct sim_cuda_device *d, unsigned attribute);

/* Burns @ns of the calling thread's time. */
void lib_spin(uint64_t ns);
