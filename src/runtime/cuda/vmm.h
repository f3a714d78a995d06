/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Bits of .other of a ROW_HANDLE. */
enum {
	HANDLE_LENT =
		1, /* may be held by what is not counted here: only NVML tells when it goes */
	HANDLE_UNSEEN = 2, /* NVML does not count it */
};
