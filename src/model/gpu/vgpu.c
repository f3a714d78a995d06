/* SPDX-License-Identifier: Apache-2.0 */
#include "model/gpu/vgpu.h"

#include <assert.h>
#include <string.h>

#include "model/labels/set.h"

/* PCI Local Bus Specification 3.0, chapter 6 and appendix H. */
enum {
	PCI_STATUS = 0x06,
	PCI_STATUS_CAPABILITIES = 0x10,
	PCI_CAPABILITIES = 0x34,
	CAPABILITY_VENDOR = 0x09,
	CAPABILITY_BROKEN = 0xff,
};

/* Layout of the capability: id, next, length, 'V', 'F', then records of (id, length, data). */
enum {
	VF_RECORDS = 5,
	RECORD_HEAD = 2,
	RECORD_HOST_DRIVER = 0,
	HOST_TEXT = 10, /* bytes of version and of branch */
};

static_assert(sizeof((struct vgpu *)0)->host_version > HOST_TEXT, "with its end");

/* A text of a foreign device becomes a label. Illegal characters are left out. */
static void copy_vgpu_host_text(char *to, const unsigned char *from)
{
	memcpy(to, from, HOST_TEXT);
	to[HOST_TEXT] = '\0';
	label_sanitise(to);
	if (!label_value_ok(to))
		to[0] = '\0';
}

static void read_records(struct vgpu *v, const unsigned char *cap, size_t len)
{
	size_t at = VF_RECORDS;

	while (at + RECORD_HEAD <= len) {
		size_t record = cap[at + 1];

		/* A record shorter than its head would make the loop endless. */
		if (record < RECORD_HEAD || record > len - at)
			return;
		if (cap[at] == RECORD_HOST_DRIVER) {
			if (record < RECORD_HEAD + 2 * HOST_TEXT)
				return;
			copy_vgpu_host_text(v->host_version, cap + at + RECORD_HEAD);
			copy_vgpu_host_text(v->host_branch, cap + at + RECORD_HEAD + HOST_TEXT);
			return;
		}
		at += record;
	}
}

int vgpu_parse(struct vgpu *ret, const void *space, size_t len, struct error *err)
{
	const unsigned char *s = space;
	bool visited[PCI_CONFIG_STANDARD] = { false };
	size_t at;

	*ret = (struct vgpu){ .state = VGPU_ABSENT };
	if (len < PCI_CONFIG_STANDARD)
		return error_set(err, ERR_PERMISSION,
			"%zu bytes of PCI configuration space, expected at least %d: reading "
			"more needs CAP_SYS_ADMIN",
			len, PCI_CONFIG_STANDARD);
	if (!(s[PCI_STATUS] & PCI_STATUS_CAPABILITIES))
		return 0;
	for (at = s[PCI_CAPABILITIES]; at && at + 2 < PCI_CONFIG_STANDARD; at = s[at + 1]) {
		size_t size = s[at + 2], room = PCI_CONFIG_STANDARD - at;

		if (visited[at] || s[at] == CAPABILITY_BROKEN)
			break;
		visited[at] = true;
		if (s[at] != CAPABILITY_VENDOR || size < VF_RECORDS || room < VF_RECORDS ||
			s[at + 3] != 'V' || s[at + 4] != 'F')
			continue;
		ret->state = VGPU_PRESENT;
		read_records(ret, s + at, size < room ? size : room);
		break;
	}
	return 0;
}
