/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A kubelet as device plugins see it: registration, ListAndWatch, allocation at pod admission and the PodResources
 * API, on real sockets in a directory of the caller. The stand-in runs no containers: an admitted pod is Running.
 *
 * The pods are in a cluster (testbed/standin/cluster.h). kubelet_step() admits the bound ones one by one, as the
 * real kubelet does. Thread: loop.
 */
#include "io/kubelet/rpc/rpc.h"
#include "testbed/standin/cluster.h"
#include "testbed/standin/kubelet/device-manager.h"

struct kubelet;

struct kubelet_options {
	const char *dir; /* the kubelet's directory: device-plugins/ and pod-resources/ in it */
	bool align_numa; /* topology manager policy best-effort instead of none */
};

struct kubelet_ops {
	/* Devices, plugins or pods have changed. Never called inside a kubelet_*() call. */
	void (*changed)(void *arg);
};

/* Injected faults. Plain values; the caller may set them at any time. */
struct kubelet_faults {
	uint32_t refuse;      /* number of Register calls that get an error */
	bool never_answer;    /* accepts Register and never answers it */
	uint64_t delay_ns;    /* before each answer of Register and PodResources */
	bool reregister_race; /* kubernetes issue 121994: the end of an old stream disconnects the
				 new plugin of the same resource (kubelets up to 1.36) */
};

/*
 * Makes a kubelet that does not serve yet. @rpc, @cluster and @ops must outlive it; @options is copied.
 * ERR_NOMEM; an error if the directory's name is too long for a socket.
 */
int kubelet_new(struct kubelet **ret, struct rpc *rpc, uv_loop_t *loop,
	const struct kubelet_options *options, struct simulated_cluster *cluster,
	const struct kubelet_ops *ops, void *arg, struct error *err) MUST_USE;

/*
 * Makes the directories, deletes every socket in device-plugins/ and pod-resources/, and serves. ERR_EXISTS, at
 * the first start: another kubelet answers on one of its sockets.
 */
int kubelet_start(struct kubelet *k, struct error *err) MUST_USE;

/* Closes everything. Pods keep running and their devices stay granted. @killed: as after kill -9, the socket
 * files stay. */
void kubelet_stop(struct kubelet *k, bool killed);
bool kubelet_runs(const struct kubelet *k);
struct kubelet *kubelet_free(struct kubelet *k); /* stops; returns NULL */

/* Admits the bound pods that are not admitted yet. */
void kubelet_step(struct kubelet *k);

/* The pod is deleted: frees its devices and aborts its admission. */
void kubelet_pod_gone(struct kubelet *k, const struct pod *p);

const struct device_manager *kubelet_devices(const struct kubelet *k); /* borrowed */
/* The .dir of the options; borrowed. */
const char *kubelet_dir(const struct kubelet *k);
struct kubelet_faults *kubelet_faults(struct kubelet *k); /* borrowed */

/* Counters since the start. */
struct kubelet_counts {
	uint64_t registrations, refused, allocations, failed_allocations, preferences, lists,
		rejected_lists;
};
/* Borrowed; the values change while @k runs. */
const struct kubelet_counts *kubelet_counts(const struct kubelet *k);

/* --- one-time faults; @resource NULL: every resource. Each returns how many objects it affected --- */

/* Ends the plugin's connection, as a kubelet does after an error: the plugin must register again. */
unsigned kubelet_drop_streams(struct kubelet *k, const char *resource);
/* Opens a second ListAndWatch beside the first. */
unsigned kubelet_duplicate_streams(struct kubelet *k, const char *resource);
/* Opens a ListAndWatch that never reads: its flow-control window is zero. */
unsigned kubelet_slow_reader(struct kubelet *k, const char *resource);
/* Deletes the plugins' socket files. */
unsigned kubelet_delete_sockets(struct kubelet *k);
