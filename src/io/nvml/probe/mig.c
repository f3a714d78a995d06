/* SPDX-License-Identifier: Apache-2.0 */
#include "io/nvml/probe/mig.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/fd.h"
#include "model/mig/profile.h"
#include "io/nvml/probe/mig-minors.h"

#define NAME_PREFIX "MIG " /* of profile names in NVML */
#define READS_MAX   8      /* limit of reads of one list that keeps changing */

struct mig_reader {
	struct probe *p;
	struct gpu *g;
	nvmlDevice_t device;
	struct probe_mig *result;
	struct gpu_mig before[GPU_MIG_MAX]; /* of the last probe */
	nvmlDeviceAttributes_t had[GPU_MIG_MAX];
	bool had_twin[GPU_MIG_MAX];
	uint32_t n_before;
};

void probe_caps_init(struct probe_caps *c)
{
	*c = (struct probe_caps){ .text = BUF_INIT(MIG_MINORS_MAX_BYTES) };
}

void probe_caps_fini(struct probe_caps *c)
{
	buf_fini(&c->text);
}

void probe_caps_forget(struct probe_caps *c)
{
	c->read = false;
	buf_clear(&c->text);
	error_clear(&c->err);
}

static void set_reason(struct gpu_mig *m, const char *text)
{
	if (!m->reason[0])
		probe_text(m->reason, sizeof m->reason, text);
}

/* Whether the call about device @m succeeded. If not, the device gets the error as its reason. */
static bool check_mig_call(struct mig_reader *r, struct gpu_mig *m, enum nvml_call call,
	nvmlReturn_t result)
{
	char text[GPU_REASON_MAX];

	if (probe_optional(r->p, r->g, call, result))
		return true;
	(void)snprintf(text, sizeof text, "%s: %s", nvml_call_name(call),
		nvml_strerror(r->p->nvml, result));
	set_reason(m, text);
	return false;
}

#define WORKED(m, name, ...) \
	check_mig_call(r, m, NVML_CALL_##name, PROBE_CALL(r->p, r->g->index, name, __VA_ARGS__))

/* --- profiles --- */

static bool same_attributes(const struct probe_profile *a, const struct probe_profile *b)
{
	return a->slices == b->slices && a->memory_mib == b->memory_mib && a->copy == b->copy &&
	       a->decoder == b->decoder && a->encoder == b->encoder && a->jpeg == b->jpeg &&
	       a->ofa == b->ofa;
}

/*
 * Reads all profiles of the GPU, once. NVML returns NOT_SUPPORTED for numbers that the GPU does not have, and
 * INVALID_ARGUMENT for numbers after the library's last one.
 */
static void read_gi_profiles(struct mig_reader *r)
{
	struct probe_mig *k = r->result;

	for (uint32_t number = 0; number < PROBE_PROFILES_MAX; number++) {
		nvmlGpuInstanceProfileInfo_t info = { .id = 0 };
		nvmlReturn_t result = PROBE_CALL(r->p, r->g->index,
			nvmlDeviceGetGpuInstanceProfileInfo, r->device, number, &info);
		struct probe_profile *row = &k->profiles[k->n_profiles];

		if (result == NVML_ERROR_GPU_IS_LOST)
			k->n_profiles = 0; /* the table would be incomplete */
		if (result == NVML_ERROR_INVALID_ARGUMENT || result == NVML_ERROR_GPU_IS_LOST)
			return;
		if (result != NVML_SUCCESS)
			continue;
		*row = (struct probe_profile){ .number = number,
			.id = info.id,
			.slices = info.sliceCount,
			.copy = info.copyEngineCount,
			.decoder = info.decoderCount,
			.encoder = info.encoderCount,
			.jpeg = info.jpegCount,
			.ofa = info.ofaCount,
			.memory_mib = info.memorySizeMB };
		for (uint32_t i = 0; i < k->n_profiles; i++) {
			if (!same_attributes(&k->profiles[i], row))
				continue;
			k->profiles[i].has_twin = row->has_twin = true;
		}
		k->n_profiles++;
	}
}

static const struct probe_profile *find_gi_profile(struct mig_reader *r, uint32_t id)
{
	struct probe_mig *k = r->result;

	if (k->n_profiles == 0)
		read_gi_profiles(r);
	for (uint32_t i = 0; i < k->n_profiles; i++) {
		if (k->profiles[i].id == id)
			return &k->profiles[i];
	}
	return NULL;
}

/* NVML's own name of the profile, from version 2 of the struct: driver 580 misplaces the name in version 3. */
static bool own_name(struct mig_reader *r, struct gpu_mig *m, const struct probe_profile *from,
	struct mig_profile *ret)
{
	nvmlGpuInstanceProfileInfo_v2_t info = { .version = NVML_STRUCT_VERSION(
							 nvmlGpuInstanceProfileInfo_v2_t, 2) };
	struct error err = ERROR_INIT;
	const char *name = info.name;

	if (!WORKED(m, nvmlDeviceGetGpuInstanceProfileInfoV, r->device, from->number, &info))
		return false;
	info.name[sizeof info.name - 1] = '\0';
	if (strncmp(name, NAME_PREFIX, strlen(NAME_PREFIX)) == 0)
		name += strlen(NAME_PREFIX);
	if (mig_profile_parse(ret, name, &err) == 0)
		return true;
	set_reason(m, err.msg);
	return false;
}

/*
 * Sets the profile name in the form of model/mig/profile.h: from the slices, the share of the memory, and the
 * attributes that NVML's profile number means. NVML's own name varies with the driver, so it serves only where
 * number or memory share give no name.
 */
static bool set_mig_profile_name(struct mig_reader *r, struct gpu_mig *m,
	const struct probe_profile *from)
{
	const char *attributes = mig_profile_attributes(from->number);
	uint32_t gb = mig_profile_gb(from->memory_mib, r->g->memory_total_bytes >> 20);
	struct mig_profile name = { .g = from->slices, .gb = gb };
	struct error err = ERROR_INIT;
	char text[MIG_PROFILE_NAME_MAX];

	if (attributes && gb > 0)
		(void)snprintf(name.attributes, sizeof name.attributes, "%s", attributes);
	else if (!own_name(r, m, from, &name))
		return false;
	name.c = m->ci_slices;
	mig_profile_format(&name, text);
	/* Other code parses the name again, so a name with an impossible number of slices must not leave here. */
	if (mig_profile_parse(&name, text, &err) < 0) {
		set_reason(m, err.msg);
		return false;
	}
	if (strlen(text) >= sizeof m->profile) {
		set_reason(m, "the name of its profile is too long");
		return false;
	}
	memcpy(m->profile, text, strlen(text) + 1);
	return true;
}

static bool read_mig_profile(struct mig_reader *r, struct gpu_mig *m)
{
	const struct probe_profile *profile;
	nvmlGpuInstanceInfo_t info = { .id = 0 };
	nvmlGpuInstance_t gi = NULL;
	char text[96];

	if (!WORKED(m, nvmlDeviceGetGpuInstanceById, r->device, m->gi, &gi) ||
		!WORKED(m, nvmlGpuInstanceGetInfo, gi, &info))
		return false;
	m->placed = info.placement.size > 0;
	m->start = info.placement.start;
	m->size = info.placement.size;
	profile = find_gi_profile(r, info.profileId);
	if (profile) {
		r->result->has_twin[m - r->result->mig] = profile->has_twin;
		return set_mig_profile_name(r, m, profile);
	}
	(void)snprintf(text, sizeof text, "the GPU has no GPU instance profile with id %u",
		info.profileId);
	set_reason(m, text);
	return false;
}

/* --- one device --- */

static bool read_mig_uuid(struct mig_reader *r, struct gpu_mig *m, nvmlDevice_t d)
{
	char text[NVML_DEVICE_UUID_V2_BUFFER_SIZE] = "";

	if (!WORKED(m, nvmlDeviceGetUUID, d, text, sizeof text))
		return false;
	text[sizeof text - 1] = '\0';
	probe_text(m->uuid, sizeof m->uuid, text);
	if (!m->uuid[0])
		set_reason(m, "nvmlDeviceGetUUID: the text is empty");
	return m->uuid[0] != '\0';
}

static bool read_mig_attributes(struct mig_reader *r, struct gpu_mig *m, nvmlDevice_t d,
	nvmlDeviceAttributes_t *a)
{
	if (!WORKED(m, nvmlDeviceGetAttributes_v2, d, a))
		return false;
	m->memory_mib = a->memorySizeMB;
	m->multiprocessors = a->multiprocessorCount;
	m->gi_slices = a->gpuInstanceSliceCount;
	m->ci_slices = a->computeInstanceSliceCount;
	m->copy = a->sharedCopyEngineCount;
	m->decoder = a->sharedDecoderCount;
	m->encoder = a->sharedEncoderCount;
	m->jpeg = a->sharedJpegCount;
	m->ofa = a->sharedOfaCount;
	return true;
}

/*
 * What the last probe knew of the same device. NULL: the device is new, its attributes changed, its profile is not
 * known, or the profile has a twin.
 */
static const struct gpu_mig *find_known_mig_device(const struct mig_reader *r,
	const struct gpu_mig *m, const nvmlDeviceAttributes_t *a)
{
	for (uint32_t i = 0; i < r->n_before; i++) {
		const struct gpu_mig *b = &r->before[i];

		if (strcmp(b->uuid, m->uuid) == 0)
			return b->profile[0] && !r->had_twin[i] &&
					       memcmp(&r->had[i], a, sizeof *a) == 0
				       ? b
				       : NULL;
	}
	return NULL;
}

static void read_mig_device(struct mig_reader *r, uint32_t index, nvmlDevice_t d)
{
	struct gpu_mig *m = &r->result->mig[r->result->n];
	nvmlDeviceAttributes_t *a = &r->result->attributes[r->result->n++];
	const struct gpu_mig *before;
	unsigned int gi = 0, ci = 0;

	memset(a, 0, sizeof *a);
	memset(m, 0, sizeof *m); /* with padding: memcmp() compares lists */
	r->result->has_twin[r->result->n - 1] = false;
	m->gpu = r->g->index;
	m->index = index;
	if (!read_mig_uuid(r, m, d) || !read_mig_attributes(r, m, d, a))
		return;
	before = find_known_mig_device(r, m, a);
	if (before) {
		m->gi = before->gi;
		m->ci = before->ci;
		m->placed = before->placed;
		m->start = before->start;
		m->size = before->size;
		memcpy(m->profile, before->profile, sizeof m->profile);
		return;
	}
	if (!WORKED(m, nvmlDeviceGetGpuInstanceId, d, &gi) ||
		!WORKED(m, nvmlDeviceGetComputeInstanceId, d, &ci))
		return;
	m->gi = gi;
	m->ci = ci;
	(void)read_mig_profile(r, m);
}

/* --- capabilities --- */

static void read_caps(struct probe *p, struct probe_caps *c)
{
	char path[512];
	int len = snprintf(path, sizeof path, "%s/" MIG_MINORS_PATH, p->procfs);

	if (c->read)
		return;
	c->read = true;
	probe_crumb(p, WORKER_GPU_NONE, WORKER_STEP_PROCFS);
	if (len < 0 || (size_t)len >= sizeof path)
		(void)error_set(&c->err, ERR_LIMIT, "the path of procfs is too long");
	else if (file_read(path, &c->text, &c->err) < 0)
		buf_clear(&c->text);
}

static int fill_minors(struct mig_reader *r, struct probe_caps *caps, struct error *err)
{
	struct probe_mig *k = r->result;

	read_caps(r->p, caps);
	if (caps->err.code != ERR_NONE) {
		error_copy(err, &caps->err);
		return -1;
	}
	if (!r->g->has_minor)
		return error_set(err, ERR_NOT_FOUND,
			"the minor number of the GPU is not known");
	return mig_minors_fill(buf_str(&caps->text), caps->text.len, r->g->minor, k->mig, k->n,
		err);
}

static void apply_mig_minors(struct mig_reader *r, struct probe_caps *caps)
{
	struct probe_mig *k = r->result;
	struct error err = ERROR_INIT;
	bool filled = k->n == 0 || fill_minors(r, caps, &err) == 0;

	for (uint32_t i = 0; i < k->n; i++) {
		char text[GPU_REASON_MAX];

		if (k->mig[i].reason[0]) { /* the IDs may be unknown */
			k->mig[i].has_minors = false;
			k->mig[i].gi_minor = k->mig[i].ci_minor = 0;
		}
		if (k->mig[i].has_minors || k->mig[i].reason[0])
			continue;
		if (!filled)
			(void)snprintf(text, sizeof text, "capabilities: %.150s", err.msg);
		else
			(void)snprintf(text, sizeof text,
				"'%.80s/" MIG_MINORS_PATH
				"' has no capabilities of GPU instance "
				"%u and compute instance %u",
				r->p->procfs, k->mig[i].gi, k->mig[i].ci);
		set_reason(&k->mig[i], text);
	}
}

/* --- one GPU --- */

static bool is_gpu_lost(const struct gpu *g)
{
	return g->fault == GPU_FAULT_LOST || g->fault == GPU_FAULT_RESET;
}

/* The indexes have gaps, for which NVML returns NOT_FOUND or, in places, INVALID_ARGUMENT. */
static bool read_mig_device_list(struct mig_reader *r)
{
	struct probe_mig *k = r->result;
	char text[96];

	for (uint32_t i = 0; i < k->max && i < PROBE_MIG_TRIES; i++) {
		nvmlDevice_t mig = NULL;
		nvmlReturn_t result = PROBE_CALL(r->p, r->g->index,
			nvmlDeviceGetMigDeviceHandleByIndex, r->device, i, &mig);

		if (result == NVML_ERROR_NOT_FOUND || result == NVML_ERROR_INVALID_ARGUMENT)
			continue;
		if (!probe_needed(r->p, r->g, NVML_CALL_nvmlDeviceGetMigDeviceHandleByIndex,
			    result))
			return false;
		if (k->n == GPU_MIG_MAX) {
			(void)snprintf(text, sizeof text,
				"it has more than %d MIG devices, which are not handled",
				GPU_MIG_MAX);
			probe_set_fault(r->g, GPU_FAULT_FIELD, text);
			return false;
		}
		read_mig_device(r, i, mig);
		if (is_gpu_lost(r->g))
			return false;
	}
	return true;
}

/* Reads the list as it is now. False: the list could not be read. */
static bool refresh_mig_devices(struct mig_reader *r, struct probe_caps *caps)
{
	struct probe_mig *k = r->result;

	k->n = 0;
	k->known = read_mig_device_list(r);
	if (k->known)
		apply_mig_minors(r, caps);
	else
		k->n = 0;
	return k->known;
}

/* Restores the list of the last probe. Without such a list the devices are unknown, which is a fault. */
static bool restore_last_mig(struct mig_reader *r, bool known)
{
	struct probe_mig *k = r->result;

	k->known = known;
	k->n = r->n_before;
	memcpy(k->mig, r->before, sizeof k->mig);
	memcpy(k->attributes, r->had, sizeof k->attributes);
	memcpy(k->has_twin, r->had_twin, sizeof k->has_twin);
	r->g->mig_unsettled = known;
	if (!known)
		probe_set_fault(r->g, GPU_FAULT_FIELD,
			"its MIG devices change each time that they are read");
	return known;
}

/*
 * Reads the list until it is consistent. NVML returns the devices one by one. So a list that is read while the
 * devices change can lack one, have one twice, or mix the attributes of two. A list equal to that of the last
 * probe is accepted after one read. Any other list is read until two reads agree.
 */
static bool read_settled(struct mig_reader *r, struct probe_caps *caps)
{
	struct probe_mig *k = r->result;
	bool known_before = k->known;
	struct gpu_mig seen[GPU_MIG_MAX];
	uint32_t n = k->n;

	memcpy(seen, k->mig, sizeof seen);
	for (uint32_t i = 0; i < READS_MAX; i++) {
		bool known = k->known;

		if (i > 0) /* the file may be older than the devices */
			probe_caps_forget(caps);
		if (!refresh_mig_devices(r, caps))
			return false;
		if (known && k->n == n && memcmp(seen, k->mig, n * sizeof seen[0]) == 0)
			return true;
		n = k->n;
		memcpy(seen, k->mig, sizeof seen);
	}
	return restore_last_mig(r, known_before);
}

bool probe_mig_devices(struct probe *p, struct gpu *g, nvmlDevice_t d, struct probe_caps *caps,
	struct probe_mig *keep)
{
	struct mig_reader r = { .p = p, .g = g, .device = d, .result = keep };
	unsigned int max = 0;

	if (is_gpu_lost(g))
		return false;
	if (strcmp(keep->uuid, g->uuid) != 0 || !g->uuid[0]) {
		*keep = (struct probe_mig){ .n = 0 };
		memcpy(keep->uuid, g->uuid, sizeof keep->uuid);
	}
	if (keep->max == 0) {
		if (!probe_needed(p, g, NVML_CALL_nvmlDeviceGetMaxMigDeviceCount,
			    PROBE_CALL(p, g->index, nvmlDeviceGetMaxMigDeviceCount, d, &max)))
			return false;
		keep->max = max;
	}
	r.n_before = keep->n;
	memcpy(r.before, keep->mig, sizeof r.before);
	memcpy(r.had, keep->attributes, sizeof r.had);
	memcpy(r.had_twin, keep->has_twin, sizeof r.had_twin);
	return read_settled(&r, caps);
}
