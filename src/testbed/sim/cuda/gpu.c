/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/sim/cuda/gpu.h"

#include "testbed/sim/cuda/node.h"

static struct sim_device client = SIM_DEVICE_INIT;
static bool connected;

/* A process with a MIG device has no other device. */
static CUresult request_sim_instance(void)
{
	const struct sim_cuda_device *d = &lib.devices[0];
	struct sim_device_request q = { .op = SIM_DEVICE_INSTANCE,
		.slot = d->slot,
		.id = d->gi,
		.cookie = d->ci };
	struct sim_device_reply r;

	return !lib.device_count || d->gi == SIM_NO_INSTANCE
		       ? CUDA_SUCCESS
		       : sim_device_call(&client, &q, &r, -1, NULL);
}

CUresult gpu_connect(void)
{
	struct error err = ERROR_INIT;
	CUresult r;

	if (connected)
		return CUDA_SUCCESS;
	if (sim_device_connect(&client, node_dir(), (const void *)gpu_connect, &err) < 0)
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	r = request_sim_instance();
	if (r)
		sim_device_close(&client);
	connected = !r;
	return r;
}

struct sim_device *gpu_client(void)
{
	return &client;
}

struct sim_device_page *gpu_daemon_page(void)
{
	return client.page;
}

void gpu_forget(void)
{
	if (connected)
		sim_device_forget(&client);
}

CUresult gpu_call(struct sim_device_request q, struct sim_device_reply *r, int send_fd,
	int *recv_fd)
{
	struct sim_device_reply own;
	CUresult err = gpu_connect();

	if (recv_fd)
		*recv_fd = -1;
	return err ? err : sim_device_call(&client, &q, r ? r : &own, send_fd, recv_fd);
}

CUresult gpu_info(const struct sim_cuda_device *d, uint64_t *free_bytes, uint64_t *total)
{
	struct sim_device_reply r;
	CUresult err = gpu_call(
		(struct sim_device_request){ .op = SIM_DEVICE_MEM_INFO, .slot = d->slot }, &r,
		-1, NULL);

	if (err)
		return err;
	*free_bytes = r.bytes;
	*total = r.total;
	return CUDA_SUCCESS;
}
