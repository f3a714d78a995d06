/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include "testbed/sim/device/device.h"
#include "testbed/sim/mig.h"
#include "testbed/sim/location.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Packets of two clients to the simulated GPUs. The input is a row of records: a byte (bit 0: of which
 * client, bits 1 to 3: how much time passes first, bit 4: the client goes and another comes), a byte with
 * the length in units of 8, the packet. A client that breaks the protocol goes; nothing else may happen
 * to the other one, and when both are gone nothing is held. With the last client that may come the input ends.
 */
#define COMERS_MAX 6 /* each costs a mapped page and the buffers of its queues */

static struct sim_state *state;
static char dir[] = "/tmp/gpuslice-fuzz.XXXXXX";

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static void remove_node(void)
{
	(void)nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* GPU 1 has a MIG device of three slices and one of two. */
static void create_fuzz_mig_devices(void)
{
	static const struct {
		uint32_t profile, compute; /* ids */
	} instances[] = { { 9, 2 }, { 14, 1 } };
	CLEANUP(sim_txn_end) struct sim_txn txn = SIM_TXN_INIT;
	nvmlReturn_t activation;
	struct sim_gpu *g;

	if (sim_txn_begin(state, &txn, NULL) < 0)
		abort();
	g = &txn.node->gpus[1];
	if (sim_mig_set_mode(g, NVML_DEVICE_MIG_ENABLE, &activation))
		abort();
	for (size_t i = 0; i < ARRAY_LEN(instances); i++) {
		uint32_t gi, ci;

		if (sim_gi_create(g, instances[i].profile, SIM_MIG_ANY, 0, &gi) ||
			sim_ci_create(g, gi, instances[i].compute, SIM_MIG_ANY, 0, &ci))
			abort();
	}
	sim_gpu_sum_processes(g);
	sim_txn_commit(&txn);
}

static void make_node(void)
{
	struct sim_location location;

	if (!mkdtemp(dir) || sim_location_resolve(&location, "p4d.24xlarge", dir, NULL) < 0 ||
		sim_location_open(&location, NULL, &state, NULL) != 0)
		abort();
	(void)atexit(remove_node);
	create_fuzz_mig_devices();
}

static void close_answer_fd(const struct device_answer *a)
{
	if (a->close_fd && a->fd >= 0)
		(void)close(a->fd);
}

static struct device_client *fresh(struct simulated_gpus *gpus, uint32_t pid, uint64_t now)
{
	struct sim_device_request hello = { .op = SIM_DEVICE_HELLO,
		.bytes = SIM_DEVICE_VERSION };
	struct device_client *c = device_client_new(gpus, pid);
	struct device_answer a;

	if (!c || !device_packet(c, &hello, sizeof(hello), -1, now, &a) || !a.send ||
		a.reply.status != 0)
		abort();
	return c;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct simulated_gpus *gpus = NULL;
	struct device_client *clients[2];
	unsigned int comers = 0;
	uint64_t now = 0, total = 0;

	if (!state)
		make_node();
	if (device_new(state, &gpus, NULL) < 0)
		abort();
	for (uint32_t i = 0; i < 2; i++)
		clients[i] = fresh(gpus, i + 1, now);
	while (size >= 2 && comers < COMERS_MAX) {
		union { /* aligned as a packet is */
			uint64_t align;
			unsigned char bytes[255 * 8];
		} packet;
		unsigned who = data[0] & 1, step = data[0] >> 1 & 7, go = data[0] >> 4 & 1;
		size_t len = (size_t)data[1] * 8;
		struct device_answer a;
		bool ok;

		data += 2;
		size -= 2;
		len = len < size ? len : size;
		memcpy(packet.bytes, data, len);
		data += len;
		size -= len;
		now += UINT64_C(1) << step * 4;
		device_advance(gpus, now);
		ok = device_packet(clients[who], packet.bytes, len, -1, now, &a);
		close_answer_fd(&a);
		if (!ok || go) {
			device_client_gone(clients[who], now);
			clients[who] = fresh(gpus, who + 1, now);
			comers++;
		}
	}
	for (int i = 0; i < 2; i++)
		device_client_gone(clients[i], now);
	device_exports(gpus); /* all their descriptors are closed */
	for (uint32_t slot = 0; slot < 8; slot++)
		if (sim_usage_read(state, slot, NULL, &total) != 0 || total != 0)
			abort();
	(void)device_free(gpus);
	return 0;
}
