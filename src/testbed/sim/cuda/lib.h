/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The simulated libcuda.so.1: what all its functions share.
 *
 * One lock guards everything in a process: handles, the address map, the queues of the streams. It is
 * never held while device memory is copied, a callback of the program runs, or somebody waits. Two
 * threads do the work of the streams (stream/queue.c), from the first context on; the device daemon
 * (sim/device) has what processes share: memory, and whose turn it is on the GPU.
 *
 * What several parts need is declared beside this; how each is done lies in a folder:
 *
 *	memory/  what lies where: allocations, arrays, pools, virtual memory; copies
 *	stream/  streams, events, and the queues and threads behind them
 *	graph/   graphs, and streams that capture
 *	module/  modules, and the launch of their kernels
 *
 * A call runs: initialized? (3), a context? (201; 709 if it is gone; the sticky error of a broken
 * one), arguments (1), handles (400), capture (900 to 908), then what it does. In the child of a fork of
 * an initialized process all answer 3; once exit() has begun all answer 4.
 *
 * Handles are pointers to objects whose memory is only ever used again for the same kind: a handle of
 * a destroyed object is told from a live one without touching memory of others.
 *
 * As a guest in other programs the library never exits, never asserts, takes no signals and prints
 * nothing. Thread: any.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/cuda-api.h"
#include "abi/cuda-functions.h"
#include "lib/base/cleanup.h"
#include "testbed/sim/cuda/stub.h"
#include "testbed/sim/cuda/wire.h"
#include "testbed/sim/model.h"

#define DECLARE_(name, params) EXPORT CUresult name params;
CUDA_FUNCTIONS(DECLARE_)
#undef DECLARE_

#define MIB         (UINT64_C(1) << 20)
#define GRANULE     SIM_DEVICE_GRANULE /* of device memory */
#define MAX_DEVICES 64

/* Stream 0 is the calling thread's own in functions that end in _ptsz and _ptds. */
#define PER_THREAD(stream) ((stream) ? (stream) : CU_STREAM_PER_THREAD)

/* Objects. */

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

struct obj {
	uint32_t magic;   /* tells the kind */
	uint32_t serial;  /* counts the objects that were ever in this memory */
	struct obj *next; /* free: the next free one */
};

/* Zeroed, but for the head. NULL: no memory. @size is that of the kind. Needs the lock. */
void *obj_new(enum obj_kind kind, size_t size);
void obj_drop(void *object, enum obj_kind kind);
bool obj_is(const void *object, enum obj_kind kind); /* NULL: no */

/* Devices. */

struct sim_cuda_pool;

struct sim_cuda_device {
	uint32_t slot;        /* of the simulated node */
	struct sim_keys keys; /* of a MIG device: its own, where it has any */
	uint32_t gi, ci;      /* SIM_NO_INSTANCE: a whole GPU */
	char board[48];       /* UUID of the GPU that it is on */
	unsigned char uuid[16];
	struct sim_cuda_ctx *primary; /* made once */
	unsigned primary_refs, primary_flags;
	struct sim_cuda_pool *default_pool, *current_pool, *graph_pool;
};

/* Contexts. */

#define LIMITS   9
#define CODE_MAX 64

struct sim_cuda_ctx {
	struct obj obj;
	struct sim_cuda_device *device;
	uint64_t id;
	bool primary, active; /* a primary one is made once and comes and goes */
	unsigned flags, api_version, attached;
	unsigned cache_config, shared_config;
	uint64_t daemon_id;
	int mps_fd; /* its connection to the MPS server; only while it is active */
	size_t limits[LIMITS];
	uint64_t limit_bytes; /* device memory that the limits cost */
	CUresult error;       /* what broke it; sticky */
	struct sim_cuda_stream *legacy, *streams;
	struct sim_cuda_queue *fence; /* of events of the whole context */
	struct sim_cuda_queue *gate;  /* of events that all of it waits for */
	struct sim_cuda_ctx *next;
	struct phys *code[CODE_MAX]; /* memory of modules */
	size_t code_count, code_used;
	struct array *arrays;
	struct mipmap *mipmaps;
};

/* What is to be done on a stream, or by a node of a graph. */

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
			unsigned char *args; /* ours, as the kernel reads them */
			size_t args_len;
			bool programmatic; /* may begin before the one in front has ended: told only */
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

/* Deep copies: arguments and child graphs. False: no memory. */
bool work_copy(struct cuda_work *to, const struct cuda_work *from);
void work_clear(struct cuda_work *w);

/* The process. */

struct lib {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* work was done: for those who wait */
	pthread_cond_t work;    /* there is work: for the engine */
	bool initialized;
	int driver_version;
	unsigned device_count;
	struct sim_cuda_device devices[MAX_DEVICES];
	struct sim_cuda_ctx *contexts;
	uint64_t last_id, last_seq;
	unsigned waiters, captures;
	uint64_t launch_ns, event_ns; /* what a call costs by itself */
};

extern struct lib lib;

/*
 * The start of a function: all but success leave the lock free. lib_enter_ctx(): the calling
 * thread's context too.
 */
CUresult cuda_lib_enter(void);
CUresult lib_enter_ctx(struct sim_cuda_ctx **ret);
CUresult lib_enter_device(CUdevice d, struct sim_cuda_device **ret);

/* Its end: frees the lock, returns @r. Here, so that each file sees that an error stays one. */
static inline CUresult lib_leave(CUresult r)
{
	(void)pthread_mutex_unlock(&lib.lock);
	return r;
}

/* True in the child of a fork of an initialized process. */
bool lib_is_orphan(void);
bool lib_has_ended(void); /* exit() has begun */

/* The calling thread's context or NULL; a destroyed one: @r. */
struct sim_cuda_ctx *ctx_current(CUresult *r);
CUresult ctx_check(const struct sim_cuda_ctx *c); /* 0, 709 or what broke it */
struct sim_cuda_ctx *ctx_of(CUcontext handle);    /* NULL: no context */
uint64_t thread_id(void);                         /* never 0, never used twice */

/* Makes a device's primary context without counting it; for those that need one. */
CUresult ctx_activate(struct sim_cuda_ctx *c);
/* A kernel of it did what no kernel may: of its MPS server's other clients too. */
void ctx_fault(struct sim_cuda_ctx *c, CUresult error);

/* An attribute of a device by its number, which is in range. */
int device_attribute(const struct sim_cuda_device *d, unsigned attribute);

/* Burns @ns of the calling thread's time. */
void lib_spin(uint64_t ns);
