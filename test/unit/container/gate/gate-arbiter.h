/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An arbiter on a thread of the test, for the quanta of one process. It has pages as in abi/turn-page.h, and gates
 * that the test opens and closes. It knows of the process what abi/slice-wire.h transfers, and no more.
 */
#include "abi/slice-wire.h"
#include "abi/turn-page.h"

#include <pthread.h>
#include <stdbool.h>

#define GA_CONNECTIONS 32

struct gate_client_state {
	bool busy, wants;
	uint64_t idle_ns; /* as last reported */
	uint64_t reports, ignored;
	uint64_t idles; /* of .reports: neither busy nor wanting */
};

struct gate_arbiter {
	char dir[64];
	uint32_t gpu_count;
	_Atomic bool mute;               /* reads nothing; ga_mute() waits for that */
	_Atomic unsigned int rounds;     /* of its thread */
	_Atomic uint32_t start_state;    /* of the gates of a process that registers */
	_Atomic uint32_t refuse;         /* enum slice_status of welcomes for quanta; 0: none */
	_Atomic int bad_page;            /* 1: too short, 2: no such thing, 3: none comes */
	_Atomic int hellos, again, lost; /* for quanta; connections that ended */

	pthread_mutex_t lock;      /* guards what follows */
	struct slice_page *memory; /* of the last process that registered */
	struct turn_page *page;    /* the same. NULL: there was none */
	bool connected;            /* its connection is there, */
	int last;                  /* this one */
	struct gate_client_state clients[SLICE_GPUS_MAX];

	struct {
		int fd;
		bool turns;
	} connections[GA_CONNECTIONS];
	int listener, stop_fd;
	pthread_t thread;
	uint64_t serial;
};

/* Zeroed. Serves at @dir, and sets GPUSLICE_SLICE_DIR. Slices have quanta. */
void ga_start(struct gate_arbiter *a, const char *dir, uint32_t gpus);
/* As a kill: connections end, the page stays with the process. */
void ga_kill(struct gate_arbiter *a);

/* Returns when the arbiter reads nothing more. */
void ga_mute(struct gate_arbiter *a);
void ga_again(struct gate_arbiter *a);

/* Sets the gate, with a new generation if the state changes, and wakes the waiting threads. */
void ga_set_gate(struct gate_arbiter *a, uint32_t gpu, uint32_t state);
/* The same, but the arbiter is killed before it wakes the threads. */
void ga_set_gate_only(struct gate_arbiter *a, uint32_t gpu, uint32_t state);
void ga_set_throttle(struct gate_arbiter *a, uint32_t gpu, uint64_t window_ns, uint64_t tail_ns,
	uint64_t turn_ns);
void ga_set_scheduled(struct gate_arbiter *a, bool on);

struct gate_client_state ga_client_state(struct gate_arbiter *a, uint32_t gpu);
struct turn_gpu_page *ga_page(struct gate_arbiter *a, uint32_t gpu); /* waits for it */
bool ga_is_connected(struct gate_arbiter *a);
