/* SPDX-License-Identifier: Apache-2.0 */
#include "io/nvml/proto.h"

#include <assert.h>
#include <string.h>

#include "io/nvml/probe/mig-minors.h"

static_assert(sizeof(struct gpu_link) == 3, "rows of links are bytes");

static const uint32_t lengths[WORKER_TYPE_COUNT_] = {
	[WORKER_PROBE] = sizeof(struct worker_probe),
	[WORKER_BEGIN] = sizeof(struct worker_begin),
	[WORKER_GPU] = sizeof(struct worker_gpu),
	[WORKER_LINKS] = sizeof(struct worker_links),
	[WORKER_END] = sizeof(struct worker_end),
	[WORKER_XID] = sizeof(struct worker_xid),
	[WORKER_PROBE_HINT] = sizeof(struct worker_head),
	[WORKER_ERROR] = sizeof(struct worker_error),
	[WORKER_REINIT] = sizeof(struct worker_head),
	[WORKER_MIG] = sizeof(struct worker_mig),
	[WORKER_READ] = sizeof(struct worker_read),
	[WORKER_PROCESSES] = sizeof(struct worker_processes),
	[WORKER_READ_END] = sizeof(struct worker_read_end),
	[WORKER_SAMPLE] = sizeof(struct worker_sample),
	[WORKER_DEVICE] = sizeof(struct worker_device),
	[WORKER_VALUES] = sizeof(struct worker_values),
	[WORKER_TEXTS] = sizeof(struct worker_texts),
	[WORKER_USERS] = sizeof(struct worker_users),
	[WORKER_SAMPLE_END] = sizeof(struct worker_sample_end),
};

static uint64_t hash_proto_bytes(uint64_t h, const void *data, size_t len)
{
	const unsigned char *p = data;

	for (size_t i = 0; i < len; i++)
		h = (h ^ p[i]) * UINT64_C(0x100000001b3);
	return h;
}

#define FNV_START UINT64_C(0xcbf29ce484222325)

uint64_t worker_uuid_hash(const char *uuid)
{
	return hash_proto_bytes(FNV_START, uuid, strlen(uuid));
}

/* Differs between any two builds that could misunderstand each other. */
static uint32_t worker_version(void)
{
	const uint32_t counts[] = { NVML_CALL_COUNT_, (uint32_t)n_fields };
	uint64_t h = hash_proto_bytes(FNV_START, GPUSLICE_VERSION, sizeof GPUSLICE_VERSION);

	h = hash_proto_bytes(h, lengths, sizeof lengths);
	h = hash_proto_bytes(h, counts, sizeof counts);
	return (uint32_t)(h ^ h >> 32);
}

void worker_head(struct worker_head *h, enum worker_type type)
{
	*h = (struct worker_head){ .magic = WORKER_MAGIC,
		.version = worker_version(),
		.type = type,
		.len = lengths[type] };
}

const char *worker_step_name(unsigned step)
{
	if (step == WORKER_STEP_OPEN)
		return "the opening of the NVML library";
	if (step == WORKER_STEP_SYSFS)
		return "a file in sysfs";
	if (step == WORKER_STEP_PROCFS)
		return "a file in procfs";
	if (step == WORKER_STEP_NONE)
		return "the worker";
	return nvml_call_name(step);
}

static int set_worker_msg_error(struct error *err, const char *what)
{
	return error_set(err, ERR_INVALID, "message of the NVML worker: %s", what);
}

static bool has_text_end(const char *text, size_t cap)
{
	return memchr(text, '\0', cap) != NULL;
}

/* The driver's text goes into logs and labels, so only printable ASCII is accepted. */
static bool is_printable_text(const char *text, size_t cap)
{
	if (!has_text_end(text, cap))
		return false;
	for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
		if (*p < 0x20 || *p >= 0x7f)
			return false;
	}
	return true;
}

#define IS_TEXT(array) is_printable_text(array, sizeof(array))

/* A bool or an enum with a value outside its type must not even be read through that type. */
static bool is_bool(const void *p)
{
	return *(const unsigned char *)p <= 1;
}

static bool is_enum(const void *p, uint32_t count)
{
	uint32_t v;

	memcpy(&v, p, sizeof v);
	return v < count;
}

static int check_worker_gpu(const struct gpu *g, struct error *err)
{
	static_assert(sizeof(bool) == 1 && sizeof(enum gpu_fault) == 4,
		"as is_bool() reads them");

	if (!IS_TEXT(g->uuid) || !IS_TEXT(g->name) || !IS_TEXT(g->bus_id) ||
		!IS_TEXT(g->cluster_uuid) || !IS_TEXT(g->reason))
		return set_worker_msg_error(err,
			"a text of a GPU has control characters or no end");
	if (!is_bool(&g->has_minor) || !is_bool(&g->mig_unknown) || !is_bool(&g->mig_capable) ||
		!is_bool(&g->mig_enabled) || !is_bool(&g->mig_pending) ||
		!is_bool(&g->mig_unsettled) || !is_bool(&g->changing) ||
		!is_bool(&g->xid_events) || !is_bool(&g->fabric_attached))
		return set_worker_msg_error(err, "a flag of a GPU is neither 0 nor 1");
	if (g->changing)
		return set_worker_msg_error(err,
			"a GPU that is being changed, which is not for it to say");
	if (g->signals_known >> GPU_SIGNAL_STORED_ ||
		g->signals_failed >> (GPU_SIGNAL_STORED_ + 1))
		return set_worker_msg_error(err, "a health signal that does not exist");
	if (!is_enum(&g->recovery, GPU_RECOVERY_DRAIN_RESET + 1) ||
		!is_enum(&g->fault, GPU_FAULT_GONE + 1))
		return set_worker_msg_error(err,
			"a fault or recovery action that does not exist");
	if (g->index >= GPU_NODE_MAX)
		return set_worker_msg_error(err, "a GPU index out of range");
	if (g->fault == GPU_OK && !g->uuid[0])
		return set_worker_msg_error(err, "a good GPU without UUID");
	return 0;
}

static int check_worker_mig_device(const struct gpu_mig *m, struct error *err)
{
	if (!IS_TEXT(m->uuid) || !IS_TEXT(m->profile) || !IS_TEXT(m->reason))
		return set_worker_msg_error(err,
			"a text of a MIG device has control characters or no end");
	if (!is_bool(&m->has_minors))
		return set_worker_msg_error(err, "a flag of a MIG device is neither 0 nor 1");
	if (m->gi_minor > MIG_MINOR_MAX || m->ci_minor > MIG_MINOR_MAX)
		return set_worker_msg_error(err, "a minor number out of range");
	if (!m->reason[0] && (!m->uuid[0] || !m->profile[0] || !m->has_minors))
		return set_worker_msg_error(err,
			"a good MIG device without UUID, profile or minors");
	return 0;
}

static int check_worker_mig(const struct worker_mig *m, struct error *err)
{
	if (m->gpu >= GPU_NODE_MAX || m->n > GPU_MIG_MAX)
		return set_worker_msg_error(err, "MIG devices out of range");
	for (uint32_t i = 0; i < m->n; i++) {
		if (m->mig[i].gpu != m->gpu ||
			(i > 0 && m->mig[i].index <= m->mig[i - 1].index))
			return set_worker_msg_error(err, "MIG devices out of order");
		if (check_worker_mig_device(&m->mig[i], err) < 0)
			return -1;
	}
	return 0;
}

static int check_links(const struct worker_links *l, struct error *err)
{
	if (l->n > GPU_NODE_MAX || l->row >= l->n)
		return set_worker_msg_error(err, "a row of links out of range");
	for (uint32_t i = 0; i < l->n; i++) {
		if (l->links[i].level > GPU_LEVEL_UNKNOWN ||
			l->links[i].nvlinks > NVML_NVLINK_MAX_LINKS ||
			l->links[i].p2p > 1 + GPU_P2P_UNKNOWN)
			return set_worker_msg_error(err, "a link that does not exist");
	}
	return 0;
}

static int check_probe(const struct worker_probe *p, struct error *err)
{
	if (p->n_skip > GPU_NODE_MAX || p->n_known > GPU_NODE_MAX)
		return set_worker_msg_error(err, "a list that is too long");
	return 0;
}

static int check_worker_processes(const struct worker_processes *p, struct error *err)
{
	if (p->gpu >= GPU_NODE_MAX || p->n > WORKER_PROCESSES_MAX)
		return set_worker_msg_error(err, "processes out of range");
	if (!IS_TEXT(p->uuid))
		return set_worker_msg_error(err, "a UUID that is not text");
	if (p->code != 0 && p->n > 0)
		return set_worker_msg_error(err, "a list of processes that could not be read");
	return 0;
}

static int check_worker_device(const struct worker_device *device, struct error *err)
{
	if (device->gpu >= GPU_NODE_MAX)
		return set_worker_msg_error(err, "a GPU index out of range");
	if ((device->gi == GPU_NO_INSTANCE) != (device->ci == GPU_NO_INSTANCE))
		return set_worker_msg_error(err, "a unit that is half a MIG device");
	if (!IS_TEXT(device->uuid) || !IS_TEXT(device->reason))
		return set_worker_msg_error(err,
			"a text of a unit has control characters or no end");
	if (!device->uuid[0])
		return set_worker_msg_error(err, "a unit without UUID");
	if (device->known & ~WORKER_DEVICE_ALL)
		return set_worker_msg_error(err, "a unit that knows what there is not");
	return 0;
}

/* Checks only that the figures can be read. The receiver checks whether they are plausible. */
static int check_worker_values(const struct worker_values *v, struct error *err)
{
	if (v->n > n_fields || v->n > FIELDS_MAX)
		return set_worker_msg_error(err, "more values than there are fields");
	for (uint32_t i = 0; i < v->n; i++) {
		if (v->v[i].field >= n_fields || fields[v->v[i].field].kind == FIELD_TEXT)
			return set_worker_msg_error(err, "a value of no field");
		if (i > 0 && v->v[i].field <= v->v[i - 1].field)
			return set_worker_msg_error(err, "values out of order");
	}
	return 0;
}

static int check_worker_texts(const struct worker_texts *t, struct error *err)
{
	if (t->n > WORKER_TEXTS_MAX)
		return set_worker_msg_error(err, "a list that is too long");
	for (uint32_t i = 0; i < t->n; i++) {
		if (t->v[i].field >= n_fields || fields[t->v[i].field].kind != FIELD_TEXT)
			return set_worker_msg_error(err, "a text of no field");
		if (i > 0 && t->v[i].field <= t->v[i - 1].field)
			return set_worker_msg_error(err, "texts out of order");
		if (!IS_TEXT(t->v[i].text))
			return set_worker_msg_error(err,
				"a text of a field has control characters or no end");
	}
	return 0;
}

static int check_users(const struct worker_users *u, struct error *err)
{
	if (u->n > WORKER_USERS_MAX)
		return set_worker_msg_error(err, "a list that is too long");
	for (uint32_t i = 0; i < u->n; i++) {
		if (!is_bool(&u->v[i].busy_known))
			return set_worker_msg_error(err,
				"a flag of a process is neither 0 nor 1");
	}
	return 0;
}

static int check_body(const union worker_msg *m, struct error *err)
{
	switch ((enum worker_type)m->head.type) {
	case WORKER_PROBE:
		return check_probe(&m->probe, err);
	case WORKER_BEGIN:
		if (m->begin.n > GPU_NODE_MAX)
			return set_worker_msg_error(err, "too many GPUs");
		if (!IS_TEXT(m->begin.driver_version) || !IS_TEXT(m->begin.nvml_version))
			return set_worker_msg_error(err, "a version that is not text");
		return 0;
	case WORKER_GPU:
		return check_worker_gpu(&m->gpu.gpu, err);
	case WORKER_MIG:
		return check_worker_mig(&m->mig, err);
	case WORKER_LINKS:
		return check_links(&m->links, err);
	case WORKER_XID:
		return IS_TEXT(m->xid.uuid)
			       ? 0
			       : set_worker_msg_error(err, "a UUID that is not text");
	case WORKER_ERROR:
		if (!IS_TEXT(m->error.text) || m->error.code == ERR_NONE ||
			m->error.code >= ERR_COUNT_ || m->error.mismatch > 1)
			return set_worker_msg_error(err, "an error that is none");
		return 0;
	case WORKER_READ:
		return m->read.n <= GPU_NODE_MAX
			       ? 0
			       : set_worker_msg_error(err, "a list that is too long");
	case WORKER_PROCESSES:
		return check_worker_processes(&m->processes, err);
	case WORKER_DEVICE:
		return check_worker_device(&m->device, err);
	case WORKER_VALUES:
		return check_worker_values(&m->values, err);
	case WORKER_TEXTS:
		return check_worker_texts(&m->texts, err);
	case WORKER_USERS:
		return check_users(&m->users, err);
	case WORKER_SAMPLE:
	case WORKER_SAMPLE_END:
	case WORKER_END:
	case WORKER_PROBE_HINT:
	case WORKER_REINIT:
	case WORKER_READ_END:
		return 0;
	case WORKER_TYPE_COUNT_:
	default:
		return set_worker_msg_error(err, "of an unknown type");
	}
}

int worker_msg_check(const union worker_msg *m, size_t len, struct error *err)
{
	if (len < sizeof m->head)
		return set_worker_msg_error(err, "shorter than its head");
	if (m->head.magic != WORKER_MAGIC)
		return set_worker_msg_error(err, "not one of ours");
	if (m->head.version != worker_version())
		return error_set(err, ERR_UNSUPPORTED,
			"the NVML worker is of another build than this program");
	if (m->head.type == 0 || m->head.type >= WORKER_TYPE_COUNT_)
		return set_worker_msg_error(err, "of an unknown type");
	if (m->head.len != len || len != lengths[m->head.type])
		return set_worker_msg_error(err, "of a wrong length");
	return check_body(m, err);
}
