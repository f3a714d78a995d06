/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/sim/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "lib/base/parse.h"
#include "abi/nvml-api.h"
#include "testbed/sim/mig.h"

#define ROW_(member, type, min, max, help)                  \
	{ #member, type, offsetof(struct sim_keys, member), \
		sizeof(((struct sim_keys *)0)->member), min, max, help },
#define ROW_T(member, size, help)     ROW_(member, SIM_KEY_TEXT, 0, (size)-1, help)
#define ROW_U(member, min, max, help) ROW_(member, SIM_KEY_U32, min, max, help)
#define ROW_I(member, min, max, help) ROW_(member, SIM_KEY_I32, min, max, help)
#define ROW_B(member, help)           ROW_(member, SIM_KEY_BYTES, 0, INT64_MAX, help)
#define ROW_C(member, help)           ROW_(member, SIM_KEY_COUNTER, 0, INT64_MAX, help)

const struct sim_key sim_key_table[] = { SIM_KEYS(ROW_T, ROW_U, ROW_I, ROW_B, ROW_C) };
const size_t sim_key_count = ARRAY_LEN(sim_key_table);

/* Limit of an amount of bytes: the sum of a whole node's memory stays far below 64 bits. */
#define BYTES_MAX (UINT64_C(1) << 50)

const struct sim_key *sim_key_find(const char *name)
{
	for (size_t i = 0; i < sim_key_count; i++)
		if (!strcmp(sim_key_table[i].name, name))
			return &sim_key_table[i];
	return NULL;
}

static int set_key_text(struct sim_keys *keys, const struct sim_key *key, const char *text,
	struct error *err)
{
	size_t len = strlen(text);

	if (len >= key->size)
		return error_set(err, ERR_INVALID, "expected at most %u bytes, found %zu",
			key->size - 1, len);
	for (const char *p = text; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7F)
			return error_set(err, ERR_INVALID, "expected printable text");
	memset((char *)keys + key->offset, 0, key->size);
	memcpy((char *)keys + key->offset, text, len);
	return 0;
}

static int set_number(struct sim_keys *keys, const struct sim_key *key, const char *text,
	struct error *err)
{
	int64_t v;

	if (!parse_i64(text, &v) || v < key->min || v > key->max)
		return error_set(err, ERR_INVALID,
			"expected a number from %" PRId64 " to %" PRId64 ", found '%.40s'",
			key->min, key->max, text);
	if (key->type == SIM_KEY_COUNTER)
		memcpy((char *)keys + key->offset, &(uint64_t){ (uint64_t)v }, 8);
	else
		memcpy((char *)keys + key->offset, &(uint32_t){ (uint32_t)v }, 4);
	return 0;
}

int sim_key_set(struct sim_keys *keys, const struct sim_key *key, const char *text,
	struct error *err)
{
	uint64_t bytes;

	if (key->type == SIM_KEY_TEXT)
		return set_key_text(keys, key, text, err);
	if (key->type != SIM_KEY_BYTES)
		return set_number(keys, key, text, err);
	if (!parse_bytes(text, &bytes) || bytes > BYTES_MAX)
		return error_set(err, ERR_INVALID,
			"expected an amount of bytes like 16Gi, found '%.40s'", text);
	memcpy((char *)keys + key->offset, &bytes, 8);
	return 0;
}

void sim_key_format(const struct sim_keys *keys, const struct sim_key *key, char *ret,
	size_t cap)
{
	const char *at = (const char *)keys + key->offset;
	uint64_t u64;
	uint32_t u32;

	switch (key->type) {
	case SIM_KEY_TEXT:
		(void)snprintf(ret, cap, "%.*s", (int)key->size, at);
		break;
	case SIM_KEY_U32:
		memcpy(&u32, at, 4);
		(void)snprintf(ret, cap, "%" PRIu32, u32);
		break;
	case SIM_KEY_I32:
		memcpy(&u32, at, 4);
		(void)snprintf(ret, cap, "%" PRId32, (int32_t)u32);
		break;
	case SIM_KEY_BYTES:
	case SIM_KEY_COUNTER:
		memcpy(&u64, at, 8);
		(void)snprintf(ret, cap, "%" PRIu64, u64);
		break;
	}
}

#define GROUP_ROW_(id, text) [SIM_GROUP_##id] = text,
static const char *const group_names[SIM_GROUP_COUNT] = { SIM_GROUPS(GROUP_ROW_) };

const char *sim_group_name(enum sim_group group)
{
	return group_names[group];
}

bool sim_group_find(const char *name, enum sim_group *ret)
{
	for (size_t i = 0; i < SIM_GROUP_COUNT; i++)
		if (!strcmp(group_names[i], name)) {
			*ret = (enum sim_group)i;
			return true;
		}
	return false;
}

#define CODE_ROW_(id, number, text) { number, #id },
static const struct {
	uint32_t code;
	const char *name;
} codes[] = { NVML_RESULTS(CODE_ROW_) };

static const char *strip_nvml_prefix(const char *name)
{
	static const char *const prefixes[] = { "NVML_ERROR_", "NVML_" };

	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
		if (!strncasecmp(name, prefixes[i], strlen(prefixes[i])))
			return name + strlen(prefixes[i]);
	return name;
}

bool sim_code_parse(const char *text, uint32_t *ret)
{
	uint32_t number;
	bool is_number = parse_u32(text, &number);

	for (size_t i = 0; i < ARRAY_LEN(codes); i++)
		if (is_number ? codes[i].code == number
			      : !strcasecmp(strip_nvml_prefix(codes[i].name),
					strip_nvml_prefix(text))) {
			*ret = codes[i].code;
			return true;
		}
	return false;
}

const char *sim_code_name(uint32_t code)
{
	for (size_t i = 0; i < ARRAY_LEN(codes); i++)
		if (codes[i].code == code)
			return strip_nvml_prefix(codes[i].name);
	return "UNKNOWN";
}

uint32_t sim_node_count(const struct sim_node_head *head)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < head->info.slot_count; i++)
		n += head->slots[i].present;
	return n;
}

bool sim_node_slot_of_index(const struct sim_node_head *head, uint32_t index, uint32_t *ret)
{
	for (uint32_t i = 0; i < head->info.slot_count; i++)
		if (head->slots[i].present && index-- == 0) {
			*ret = i;
			return true;
		}
	return false;
}

uint32_t sim_node_index_of_slot(const struct sim_node_head *head, uint32_t slot)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < slot; i++)
		n += head->slots[i].present;
	return n;
}

void sim_bus_id(const struct sim_keys *keys, char *ret)
{
	(void)snprintf(ret, NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE, "%08X:%02X:%02X.0",
		keys->pci_domain & 0xFFFF, keys->pci_bus & 0xFF, keys->pci_device & 0x1F);
}

void sim_gpu_sum_processes(struct sim_gpu *gpu)
{
	const struct sim_mig_table *t = sim_mig_table(&gpu->keys);

	gpu->process_load = 0;
	gpu->process_memory = 0;
	for (uint32_t i = 0; i < gpu->process_count; i++) {
		const struct sim_process *p = &gpu->processes[i];

		/* The percentages of a process on an instance refer to that instance. */
		gpu->process_load +=
			(p->sm_percent * sim_mig_share_percent(gpu, p->gi, p->ci) + 99) / 100;
		gpu->process_memory += p->memory_bytes;
	}
	if (gpu->process_load > 100)
		gpu->process_load = 100;
	gpu->mig.idle_bytes = t ? ((uint64_t)gpu->mig.gi_count * t->idle_mib << 20) : 0;
}
