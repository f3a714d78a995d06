/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/sim/cuda/mps.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "testbed/sim/cuda/wire.h"
#include "testbed/sim/mps/limits.h"
#include "testbed/sim/mps/link.h"

static struct mps_packet server; /* the answer of the MPS server to this process */
static int connection = -1;
static CUresult sticky; /* fault of a client of the server while this process was one */
static bool on;

static const char *get_client_env(const char *name)
{
	return getenv(name);
}

/* Sends, and blocks until the answer: a server may be starting, or still serve another user. */
static CUresult request_mps_server(int fd, struct mps_packet *p)
{
	if (!mps_send(fd, p, -1, 0) || mps_receive(fd, p, NULL, 0) != MPS_RECEIVED ||
		p->op != MPS_ANSWER)
		return CUDA_ERROR_MPS_CONNECTION_FAILED;
	return p->status;
}

CUresult mps_connect(void)
{
	struct mps_packet p = { .op = MPS_PROCESS };
	CUresult r;
	int fd;

	if (on)
		return CUDA_SUCCESS;
	/* As the driver, first checks that a daemon answers. */
	fd = mps_dial(mps_dir());
	if (fd < 0)
		return CUDA_SUCCESS;
	(void)close(fd);
	fd = mps_dial(mps_dir());
	if (fd < 0)
		return CUDA_SUCCESS;
	mps_settings_from_env(&p.settings, get_client_env);
	r = request_mps_server(fd, &p);
	if (r) {
		(void)close(fd);
		return r;
	}
	server = p;
	connection = fd;
	on = true;
	return CUDA_SUCCESS;
}

bool mps_on(void)
{
	return on;
}

/* The connections stay open in the child until the child ends, as all files of the driver. */
void mps_forget(void)
{
	connection = -1;
	on = false;
}

static unsigned find_server_slot(uint32_t slot)
{
	unsigned i = 0;

	while (i < server.count && server.slots[i] != slot)
		i++;
	return i;
}

void mps_filter(struct sim_cuda_device *all, unsigned *n)
{
	static struct sim_cuda_device kept[MAX_DEVICES]; /* under the lock */
	unsigned count = 0;

	if (!on)
		return;
	/*
	 * The server has a row for each MIG device of a GPU, all with the GPU's slot. Its first row keeps all of
	 * them.
	 */
	for (unsigned i = 0; i < server.count; i++)
		for (unsigned k = 0; k < *n && find_server_slot(server.slots[i]) == i; k++)
			if (all[k].slot == server.slots[i] && count < MAX_DEVICES)
				kept[count++] = all[k];
	memcpy(all, kept, count * sizeof(*all));
	*n = count;
}

uint32_t mps_width_of(const struct sim_cuda_device *d)
{
	return on ? mps_width(d->keys.sm_count, server.settings.percent) : d->keys.sm_count;
}

/*
 * The server is gone, and the process is no client any more. With its next context it becomes a client of the next
 * server.
 */
static CUresult reconnect_mps(void)
{
	(void)close(connection);
	connection = -1;
	on = false;
	return mps_connect();
}

CUresult mps_context(const struct sim_cuda_device *d, struct sim_device_request *request,
	int *fd)
{
	struct mps_packet p = { .op = MPS_CONTEXT };
	CUresult r;

	*fd = -1;
	if (!on)
		return CUDA_SUCCESS;
	if (sticky)
		return sticky;
	if (!mps_is_alive(connection)) {
		r = reconnect_mps();
		if (r || !on)
			return r;
	}
	p.id = server.id;
	p.device = find_server_slot(d->slot);
	if (p.device == server.count)
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	*fd = mps_dial(mps_dir());
	if (*fd < 0)
		return CUDA_ERROR_MPS_CONNECTION_FAILED;
	r = request_mps_server(*fd, &p);
	request->id = p.id;
	request->cookie = p.cookie;
	if (r)
		mps_leave(fd, CUDA_SUCCESS);
	return r;
}

void mps_leave(int *fd, CUresult error)
{
	if (*fd >= 0 && error >= CUDA_ERROR_ILLEGAL_ADDRESS &&
		error <= CUDA_ERROR_LAUNCH_FAILED)
		sticky = error;
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
}
