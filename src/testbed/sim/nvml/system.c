/* SPDX-License-Identifier: Apache-2.0 */

/* The system as a whole, and the look-ups of a handle by index, UUID, address or serial. */
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "testbed/sim/mig.h"
#include "testbed/sim/nvml/lib.h"

EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *text, unsigned int len)
{
	const struct sim_state *s;
	struct sim_node_head head;
	nvmlReturn_t r = lib_enter_node(text != NULL, &s, &head);

	return r ? r : text_out(head.driver_version, sizeof(head.driver_version), text, len);
}

EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *text, unsigned int len)
{
	char version[NVML_SYSTEM_NVML_VERSION_BUFFER_SIZE];
	const struct sim_state *s;
	struct sim_node_head head;
	nvmlReturn_t r = lib_enter_node(text != NULL, &s, &head);

	if (r)
		return r;
	(void)snprintf(version, sizeof(version), "%u.%.*s", head.info.nvml_major,
		(int)sizeof(head.driver_version), head.driver_version);
	return text_out(version, sizeof(version), text, len);
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	const struct sim_state *s;
	struct sim_node_head head;
	nvmlReturn_t r = lib_enter_node(version != NULL, &s, &head);

	if (r == NVML_SUCCESS)
		*version = (int)head.info.cuda_version;
	return r;
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
	return nvmlSystemGetCudaDriverVersion_v2(version);
}

/* The name of a simulated process with this PID, on any GPU. */
static bool simulated_name(const struct sim_state *s, const struct sim_node_head *head,
	unsigned int pid, char *ret, size_t cap)
{
	struct sim_gpu g;

	for (uint32_t slot = 0; slot < head->info.slot_count; slot++) {
		if (!head->slots[slot].present)
			continue;
		sim_state_read(s, &SIM_PART_GPU_ALL(slot, &g), 1);
		for (uint32_t i = 0; i < g.process_count && i < SIM_MAX_PROCESSES; i++)
			if (g.processes[i].pid == pid) {
				(void)snprintf(ret, cap, "%.*s",
					(int)sizeof(g.processes[i].name), g.processes[i].name);
				return true;
			}
	}
	return false;
}

/* The process with this PID on this machine: the first word of its command line. */
static bool real_name(unsigned int pid, char *ret, size_t cap)
{
	CLEANUP(closep) int fd = -1;
	char path[64];
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, ret, cap - 1);
	ret[n > 0 ? n : 0] = '\0';
	return n >= 0;
}

EXPORT nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *text, unsigned int len)
{
	const struct sim_state *s;
	struct sim_node_head head;
	char name[1024];
	nvmlReturn_t r = lib_enter_node(text != NULL && len != 0, &s, &head);

	if (r)
		return r;
	if (!simulated_name(s, &head, pid, name, sizeof(name)) &&
		!real_name(pid, name, sizeof(name)))
		return NVML_ERROR_NOT_FOUND;
	/* A name that is too long is truncated: the call has no fixed-size string (measured). */
	(void)snprintf(text, len, "%s", name);
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlGetExcludedDeviceCount(unsigned int *count)
{
	const struct sim_state *s;
	nvmlReturn_t r = nvml_lib_enter(&s);

	if (r)
		return r;
	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*count = 0;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlGetExcludedDeviceInfoByIndex(unsigned int index,
	nvmlExcludedDeviceInfo_t *info)
{
	const struct sim_state *s;
	nvmlReturn_t r = nvml_lib_enter(&s);

	(void)index;
	(void)info;
	return r ? r : NVML_ERROR_INVALID_ARGUMENT;
}

EXPORT nvmlReturn_t nvmlGetBlacklistDeviceCount(unsigned int *count)
{
	return nvmlGetExcludedDeviceCount(count);
}

EXPORT nvmlReturn_t nvmlGetBlacklistDeviceInfoByIndex(unsigned int index,
	nvmlExcludedDeviceInfo_t *info)
{
	return nvmlGetExcludedDeviceInfoByIndex(index, info);
}

/* --- handles --- */

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
	const struct sim_state *s;
	struct sim_node_head head;
	nvmlReturn_t r = lib_enter_node(count != NULL, &s, &head);

	if (r == NVML_SUCCESS)
		*count = sim_node_count(&head);
	return r;
}

EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned int *count)
{
	return nvmlDeviceGetCount_v2(count);
}

/* The last step of each look-up: checks that the GPU can be used, and returns its handle. */
static nvmlReturn_t write_device_handle(const struct sim_state *s,
	const struct sim_node_head *head, uint32_t slot, nvmlDevice_t *d)
{
	nvmlReturn_t r = slot_check(s, slot, SIM_GROUP_HANDLE);

	if (r == NVML_SUCCESS)
		*d = handle_encode(
			(struct handle){ .slot = slot, .epoch = head->slots[slot].epoch });
	return r;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *d)
{
	const struct sim_state *s;
	struct sim_node_head head;
	nvmlReturn_t r = lib_enter_node(d != NULL, &s, &head);
	uint32_t slot;

	if (r)
		return r;
	if (!sim_node_slot_of_index(&head, index, &slot))
		return NVML_ERROR_INVALID_ARGUMENT;
	return write_device_handle(s, &head, slot, d);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *d)
{
	return nvmlDeviceGetHandleByIndex_v2(index, d);
}

struct pci_address {
	unsigned domain, bus, device;
};

/* Whether a GPU matches; @what is a text or a struct pci_address. */
typedef bool match_fn(const struct sim_keys *k, const void *what);

static bool match_uuid(const struct sim_keys *k, const void *what)
{
	return !strncmp(k->uuid, what, sizeof(k->uuid));
}

static bool match_serial(const struct sim_keys *k, const void *what)
{
	return k->serial[0] && !strncmp(k->serial, what, sizeof(k->serial));
}

static bool match_pci(const struct sim_keys *k, const void *what)
{
	const struct pci_address *a = what;

	return k->pci_domain == a->domain && k->pci_bus == a->bus && k->pci_device == a->device;
}

static nvmlReturn_t find_gpu_handle(const struct sim_state *s, const struct sim_node_head *head,
	match_fn *match, const void *what, nvmlDevice_t *d)
{
	struct sim_gpu g;

	for (uint32_t slot = 0; slot < head->info.slot_count; slot++) {
		if (!head->slots[slot].present)
			continue;
		sim_state_read(s, &SIM_PART_GPU(slot, &g), 1);
		if (match(&g.keys, what))
			return write_device_handle(s, head, slot, d);
	}
	return NVML_ERROR_NOT_FOUND;
}

/*
 * The MIG device of @g with @uuid, by position in the tables. @uuid is its UUID, or the form of old drivers,
 * "MIG-GPU-<uuid>/<gi>/<ci>".
 */
static bool find_mig_by_uuid(const struct sim_gpu *g, const char *uuid, uint32_t *gi,
	uint32_t *ci)
{
	char text[SIM_MIG_UUID_MAX], old[96];

	for (uint32_t i = 0; mig_device_by_index(g, i, gi, ci); i++) {
		uint32_t gi_id = g->mig.gis[*gi].id, ci_id = g->mig.gis[*gi].cis[*ci].id;

		sim_mig_uuid(&g->keys, gi_id, ci_id, text);
		(void)snprintf(old, sizeof(old), "MIG-%.*s/%u/%u", (int)sizeof(g->keys.uuid),
			g->keys.uuid, gi_id, ci_id);
		if (!strcmp(uuid, text) || !strcmp(uuid, old))
			return true;
	}
	return false;
}

static nvmlReturn_t find_mig_handle(const struct sim_state *s, const struct sim_node_head *head,
	const char *uuid, nvmlDevice_t *d)
{
	struct sim_gpu g;
	uint32_t gi, ci;

	for (uint32_t slot = 0; slot < head->info.slot_count; slot++) {
		nvmlReturn_t r;

		if (!head->slots[slot].present)
			continue;
		sim_state_read(s, &SIM_PART_GPU_MIG(slot, &g), 1);
		g.process_count = 0; /* not read */
		lib_clamp(&g);
		if (!find_mig_by_uuid(&g, uuid, &gi, &ci))
			continue;
		r = slot_check(s, slot, SIM_GROUP_HANDLE);
		if (r == NVML_SUCCESS)
			*d = mig_device_handle(&g, slot, head->slots[slot].epoch, gi, ci);
		return r;
	}
	return NVML_ERROR_NOT_FOUND;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *d)
{
	const struct sim_state *s;
	struct sim_node_head head;
	nvmlReturn_t r = lib_enter_node(uuid && d, &s, &head);

	if (r)
		return r;
	return strncmp(uuid, "MIG-", 4) ? find_gpu_handle(s, &head, match_uuid, uuid, d)
					: find_mig_handle(s, &head, uuid, d);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *d)
{
	const struct sim_state *s;
	struct sim_node_head head;
	nvmlReturn_t r = lib_enter_node(serial && d, &s, &head);

	return r ? r : find_gpu_handle(s, &head, match_serial, serial, d);
}

/* Hexadecimal digits up to @end, which is skipped. */
static bool hex_field(const char **p, char end, unsigned max_digits, unsigned *ret)
{
	unsigned n = 0, v = 0;

	for (; isxdigit((unsigned char)**p) && n <= max_digits; (*p)++, n++)
		v = v * 16 + (unsigned)(isdigit((unsigned char)**p) ? **p - '0'
								    : tolower(**p) - 'a' + 10);
	*ret = v;
	return n > 0 && n <= max_digits && *(*p)++ == end;
}

/* "00000000:00:1E.0", "0000:00:1e.0" or "00:1e.0"; the function is 0. */
static bool pci_parse(const char *text, struct pci_address *ret)
{
	const char *p = text;
	unsigned function;

	if (!hex_field(&p, ':', 8, &ret->domain))
		return false;
	if (!hex_field(&p, ':', 2, &ret->bus)) {
		p = text;
		ret->domain = 0;
		if (!hex_field(&p, ':', 2, &ret->bus))
			return false;
	}
	return hex_field(&p, '.', 2, &ret->device) && hex_field(&p, '\0', 1, &function);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *d)
{
	const struct sim_state *s;
	struct sim_node_head head;
	struct pci_address address;
	nvmlReturn_t r = lib_enter_node(bus_id && d, &s, &head);

	if (r)
		return r;
	if (!pci_parse(bus_id, &address))
		return NVML_ERROR_INVALID_ARGUMENT;
	return find_gpu_handle(s, &head, match_pci, &address, d);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus_id, nvmlDevice_t *d)
{
	return nvmlDeviceGetHandleByPciBusId_v2(bus_id, d);
}
