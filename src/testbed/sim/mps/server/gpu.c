/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs that the server serves: its contexts on them, tickets, and the effects of faults (server.h). */
#include "testbed/sim/mps/server/server.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "lib/base/parse.h"
#include "testbed/sim/mig.h"
#include "testbed/sim/mps/log.h"
#include "testbed/sim/location.h"

#define UNSUPPORTED     801
#define ILLEGAL_ADDRESS 700

/* --- which GPUs --- */

static void add_server_gpu(struct mps_server_state *s, uint32_t slot, const struct sim_keys *k)
{
	struct server_device *d = &s->devices[s->device_count++];

	*d = (struct server_device){ .slot = slot, .sm_count = k->sm_count };
	(void)snprintf(d->name, sizeof(d->name), "%s", k->name);
	(void)snprintf(d->uuid, sizeof(d->uuid), "%s", k->uuid);
}

static bool add_named_mig(struct mps_server_state *s, uint32_t slot, struct sim_gpu *g,
	const char *word)
{
	for (uint32_t i = 0; i < g->mig.gi_count; i++)
		for (uint32_t k = 0; k < g->mig.gis[i].ci_count; k++) {
			const struct sim_gi *gi = &g->mig.gis[i];
			char uuid[SIM_MIG_UUID_MAX], old[128];
			struct server_device *d;

			sim_mig_uuid(&g->keys, gi->id, gi->cis[k].id, uuid);
			(void)snprintf(old, sizeof(old), "MIG-%s/%u/%u", g->keys.uuid, gi->id,
				gi->cis[k].id);
			if (strcasecmp(word, uuid) != 0 && strcasecmp(word, old) != 0)
				continue;
			add_server_gpu(s, slot, &g->keys);
			d = &s->devices[s->device_count - 1];
			d->is_mig = true;
			(void)snprintf(d->uuid, sizeof(d->uuid), "%s", uuid);
			return true;
		}
	return false;
}

/* Adds the device of one entry of CUDA_VISIBLE_DEVICES: a number, a UUID or the beginning of one. */
static bool add_named(struct mps_server_state *s, const struct sim_state *state, uint32_t slots,
	const char *word)
{
	uint32_t number, index = 0;
	bool by_number = parse_u32(word, &number);

	for (uint32_t i = 0; i < slots && s->device_count < MPS_DEVICES_MAX; i++) {
		struct sim_slot slot;
		struct sim_gpu g;

		sim_state_read(state, &SIM_PART_SLOT(i, &slot), 1);
		if (!slot.present || slot.lost)
			continue;
		sim_state_read(state, &SIM_PART_GPU_MIG(i, &g), 1);
		if (by_number ? index++ == number
			      : strlen(word) > 4 &&
					!strncasecmp(g.keys.uuid, word, strlen(word))) {
			add_server_gpu(s, i, &g.keys);
			return true;
		}
		if (!by_number && add_named_mig(s, i, &g, word))
			return true;
	}
	return false;
}

static void find_visible_devices(struct mps_server_state *s, const struct sim_state *state)
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES");
	struct sim_node_info info;
	char word[128];

	sim_state_read(state, &SIM_PART_INFO(&info), 1);
	for (uint32_t i = 0; !list && i < info.slot_count; i++) {
		(void)snprintf(word, sizeof(word), "%u", i);
		if (!add_named(s, state, info.slot_count, word))
			return;
	}
	/* As the driver does: up to the first entry that names no device. */
	while (list && *list) {
		size_t n;

		list += strspn(list, " ,");
		n = strcspn(list, " ,");
		(void)snprintf(word, sizeof(word), "%.*s",
			n < sizeof(word) ? (int)n : (int)sizeof(word) - 1, list);
		if (!n || !add_named(s, state, info.slot_count, word))
			return;
		list += n;
	}
}

bool gpu_find_all(struct mps_server_state *s)
{
	struct error err = ERROR_INIT;
	struct sim_state *state = NULL;
	struct sim_location location;
	bool ok;

	if (sim_location_from_env(&location, NULL, &err) < 0 ||
		sim_location_open(&location, NULL, &state, &err) != 0) {
		mps_log(s->log, "Server", "No simulated node: %s", err.msg);
		return false;
	}
	find_visible_devices(s, state);
	ok = s->device_count > 0;
	if (ok && sim_device_connect(&s->gpu, sim_state_dir(state), NULL, &err) < 0) {
		mps_log(s->log, "Server", "%s", err.msg);
		ok = false;
	}
	(void)sim_state_close(state);
	return ok;
}

/* --- contexts --- */

static uint32_t call_gpu_daemon(struct mps_server_state *s, struct sim_device_request request,
	struct sim_device_reply *r)
{
	return sim_device_call(&s->gpu, &request, r, -1, NULL);
}

static bool serve_mps_device(struct mps_server_state *s, uint32_t i)
{
	struct server_device *d = &s->devices[i];
	struct sim_device_reply r;
	uint32_t status;

	mps_log(s->log, "Server", "Creating server context on device %u (%s)", i, d->name);
	if (d->is_mig)
		return true;
	status = call_gpu_daemon(s,
		(struct sim_device_request){ .op = SIM_DEVICE_MPS_SERVE, .slot = d->slot }, &r);
	if (status == UNSUPPORTED)
		d->is_mig = true; /* the driver could serve its MIG devices, not the GPU */
	else if (status)
		mps_log(s->log, "Server", "Failed to create server context on device %u: %u", i,
			status);
	d->serves = status == 0;
	d->object = r.object;
	d->fault = 0;
	return d->serves || d->is_mig;
}

bool gpu_serve_all(struct mps_server_state *s)
{
	for (uint32_t i = 0; i < s->device_count; i++)
		if (!s->devices[i].serves && !s->devices[i].is_mig && !serve_mps_device(s, i))
			return false;
	return true;
}

bool gpu_lives(const struct mps_server_state *s)
{
	struct pollfd p = { .fd = s->gpu.fd };

	return s->gpu.fd >= 0 && poll(&p, 1, 0) == 0;
}

uint32_t gpu_ticket(struct mps_server_state *s, const struct process *p, uint32_t device,
	struct mps_packet *answer)
{
	const struct server_device *d = &s->devices[device];
	struct sim_device_reply r;
	uint32_t status;

	if (!d->serves)
		return d->is_mig ? UNSUPPORTED : MPS_NOT_READY;
	status = call_gpu_daemon(s,
		(struct sim_device_request){ .op = SIM_DEVICE_MPS_TICKET,
			.object = d->object,
			.bytes = p->settings.limits[device],
			.percent = mps_width(d->sm_count, p->settings.percent),
			.flags = p->settings.priority },
		&r);
	answer->id = r.id;
	answer->cookie = r.cookie;
	return status;
}

void gpu_end_context(struct mps_server_state *s, const struct server_context *c, uint32_t code)
{
	struct sim_device_reply r;

	(void)call_gpu_daemon(s,
		(struct sim_device_request){ .op = SIM_DEVICE_MPS_END,
			.id = c->ticket,
			.flags = code },
		&r);
}

/* --- faults: the server does not know which client caused one, and names the oldest --- */

static void log_members(struct mps_server_state *s, uint32_t device)
{
	const struct server_context *first = NULL;

	for (const struct server_context *c = s->contexts; c; c = c->next)
		if (c->device == device)
			first = c;
	if (first && s->devices[device].fault == ILLEGAL_ADDRESS)
		mps_log(s->log, "Server",
			"Client {PID: %d, Context: %u} encountered a fatal GPU error.",
			(int)first->process->pid, first->number);
	mps_log(s->log, "Server", "Server is handling a fatal GPU error.");
	/* NVIDIA's order: the oldest one, then the others, newest first. */
	for (int pass = 0; pass < 2; pass++)
		for (const struct server_context *c = s->contexts; c; c = c->next)
			if (c->device == device && (c == first) == (pass == 0))
				mps_log(s->log, "Server",
					"Client {PID: %d, Context ID: %u} on device %u to be torn down",
					(int)c->process->pid, c->number, device);
}

static bool was_hit(const struct mps_server_state *s, const struct process *p, uint32_t device)
{
	for (const struct server_context *c = s->contexts; c; c = c->next)
		if (c->process == p && c->device == device)
			return true;
	return false;
}

/* Ends the contexts of @p on other devices too. */
static void tear_down(struct mps_server_state *s, struct process *p, uint32_t device,
	uint32_t code)
{
	p->sticky = code;
	mps_log(s->log, "Server",
		"All clients belonging to error trigging process %d will be torn down",
		(int)p->pid);
	for (const struct server_context *c = s->contexts; c; c = c->next) {
		if (c->process != p)
			continue;
		mps_log(s->log, "Server",
			"Client {PID: %d, Context ID: %u} on the error-trigging process %d to be torn down",
			(int)p->pid, c->number, (int)p->pid);
		if (c->device != device)
			gpu_end_context(s, c, code);
	}
}

static void for_hit(struct mps_server_state *s, uint32_t device, uint32_t code, bool last)
{
	struct process *first = NULL;

	for (struct process *p = s->processes; p; p = p->next)
		if (was_hit(s, p, device))
			first = p;
	for (int pass = 0; pass < 2; pass++)
		for (struct process *p = s->processes; p; p = p->next) {
			if (!was_hit(s, p, device) || (p == first) != (pass == 0))
				continue;
			if (last)
				mps_log(s->log, "Server", "%d", (int)p->pid);
			else
				tear_down(s, p, device, code);
		}
}

static void handle_fault(struct mps_server_state *s, uint32_t device, uint32_t code)
{
	s->devices[device].fault = code;
	s->faulted = true;
	server_send_state(s);
	log_members(s, device);
	for_hit(s, device, code, false);
	mps_log(s->log, "Server", "The following devices will be reset:");
	mps_log(s->log, "Server", "%u", device);
	mps_log(s->log, "Server", "The following client process have a sticky error set:");
	for_hit(s, device, code, true);
}

static void destroy_server_context(struct mps_server_state *s, uint32_t device)
{
	struct server_device *d = &s->devices[device];
	struct sim_device_reply r;

	mps_log(s->log, "Server", "Destroy server context on device %u (%s)", device, d->name);
	(void)call_gpu_daemon(s,
		(struct sim_device_request){ .op = SIM_DEVICE_CONTEXT_DESTROY,
			.object = d->object },
		&r);
	d->serves = false;
	d->fault = 0;
}

void gpu_check_faults(struct mps_server_state *s)
{
	bool any = false, was = s->faulted;

	for (uint32_t i = 0; i < s->device_count; i++) {
		struct server_device *d = &s->devices[i];
		uint32_t code =
			d->serves ? atomic_load(&s->gpu.page->contexts[d->object].error) : 0;

		if (code && !d->fault)
			handle_fault(s, i, code);
		if (d->fault && !d->contexts)
			destroy_server_context(s, i);
		any = any || d->fault;
	}
	s->faulted = any;
	if (was && !any)
		server_send_state(s);
}
