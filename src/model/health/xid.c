/* SPDX-License-Identifier: Apache-2.0 */
/* The class and the text of each XID (health.h). */
#include "model/health/health.h"

/*
 * XIDs that a data center GPU can report. Texts and classes follow NVIDIA's public catalog
 * (https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html and the older list at
 * https://docs.nvidia.com/deploy/xid-errors/): the "restart app" buckets, the "reset GPU" buckets, and
 * those that end in hardware diagnosis. Two choices are ours:
 *  - The application class has exactly the XIDs that NVIDIA's device plugin ignores by default (13 31 43 45
 *    68 109). So the class alone gives the default of health_policy_acts(). Other errors that a program may
 *    cause (8, 69, 94 ...) are driver class: a short pause.
 *  - An unlisted XID is driver class, too.
 *
 * Marked (*): number and text are certain. The severity depends on GPU and driver, so the class here is the
 * more careful one.
 */
static const struct xid_row {
	uint16_t xid;
	uint8_t class_;
	const char *text;
} table[] = {
	/* sorted by number */
	{ 8, XID_DRIVER, "GPU stopped processing" },
	{ 11, XID_DRIVER, "invalid or corrupted push buffer stream" },
	{ 13, XID_APPLICATION, "graphics engine exception" },
	{ 16, XID_DRIVER, "display engine hung" },
	{ 18, XID_HARDWARE, "bus mastering disabled in PCI config space" },
	{ 24, XID_DRIVER, "GPU semaphore timeout" },
	{ 25, XID_DRIVER, "invalid or illegal push buffer stream" },
	{ 26, XID_DRIVER, "framebuffer timeout" },
	{ 30, XID_DRIVER, "GPU semaphore access error" },
	{ 31, XID_APPLICATION, "GPU memory page fault" },
	{ 32, XID_DRIVER, "invalid or corrupted push buffer stream" },
	{ 37, XID_DRIVER, "driver firmware error" },
	{ 38, XID_DRIVER, "driver firmware error" },
	{ 43, XID_APPLICATION, "GPU stopped processing" },
	{ 44, XID_DRIVER, "graphics engine fault during context switch" },
	{ 45, XID_APPLICATION, "preemptive cleanup, due to previous errors" },
	{ 46, XID_RESET, "GPU stopped processing" }, /* (*) */
	{ 48, XID_RESET, "double bit ECC error" },
	{ 54, XID_HARDWARE, "auxiliary power is not connected" },
	{ 57, XID_HARDWARE, "error programming video memory interface" },
	{ 58, XID_HARDWARE, "unstable video memory interface" },
	{ 61, XID_RESET, "internal micro-controller breakpoint" },
	{ 62, XID_RESET, "internal micro-controller halt" },
	{ 63, XID_DRIVER, "ECC page retirement or row remapping recorded" },
	{ 64, XID_RESET, "ECC page retirement or row remapping not recorded" },
	{ 66, XID_DRIVER, "illegal access by driver" },
	{ 67, XID_DRIVER, "illegal access by driver" },
	{ 68, XID_APPLICATION, "NVDEC0 exception" },
	{ 69, XID_DRIVER, "graphics engine class error" },
	{ 70, XID_DRIVER, "copy engine 3 error" },
	{ 71, XID_DRIVER, "copy engine 4 error" },
	{ 72, XID_DRIVER, "copy engine 5 error" },
	{ 73, XID_DRIVER, "NVENC2 error" },
	{ 74, XID_RESET, "NVLink error" }, /* (*) */
	{ 78, XID_DRIVER, "vGPU start error" },
	{ 79, XID_RESET, "GPU has fallen off the bus" },
	{ 80, XID_DRIVER, "corrupted data sent to GPU" },
	{ 92, XID_HARDWARE, "high single-bit ECC error rate" }, /* (*) */
	{ 93, XID_DRIVER, "non-fatal violation of provisioned InfoROM wear limit" },
	{ 94, XID_DRIVER, "contained ECC error" },
	{ 95, XID_RESET, "uncontained ECC error" },
	{ 109, XID_APPLICATION, "context switch timeout" },
	{ 110, XID_RESET, "security fault" },
	{ 119, XID_RESET, "GSP RPC timeout" },
	{ 120, XID_RESET, "GSP error" },
	{ 121, XID_DRIVER, "C2C link error" }, /* (*) */
	{ 122, XID_DRIVER, "SPI PMU RPC read failure" },
	{ 123, XID_DRIVER, "SPI PMU RPC write failure" },
	{ 124, XID_DRIVER, "SPI PMU RPC erase failure" },
	{ 125, XID_DRIVER, "InfoROM file system failure" },
	{ 136, XID_RESET, "link training failed" }, /* (*) */
	{ 137, XID_DRIVER, "NVLink fabric privilege error" },
	{ 140, XID_RESET, "unrecovered ECC error" },
	{ 143, XID_RESET, "GPU initialization error" },
	/* The driver's own recovery action decides here: see struct gpu.recovery. */
	{ 154, XID_DRIVER, "GPU recovery action changed" },
	{ 156, XID_DRIVER, "resource retirement event" },
	{ 157, XID_RESET, "resource retirement failure" }, /* (*) */
	{ 158, XID_RESET, "GPU fatal timeout" },
};

static const struct xid_row *find_xid_row(uint32_t xid)
{
	size_t lo = 0, hi = ARRAY_LEN(table);

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (table[mid].xid == xid)
			return &table[mid];
		if (table[mid].xid < xid)
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}

enum xid_class xid_class(uint32_t xid)
{
	const struct xid_row *row = find_xid_row(xid);

	return row ? (enum xid_class)row->class_ : XID_DRIVER;
}

const char *xid_text(uint32_t xid)
{
	const struct xid_row *row = find_xid_row(xid);

	return row ? row->text : "";
}
