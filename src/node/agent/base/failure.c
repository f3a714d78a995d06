/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/base/failure.h"

void failure_set(struct failure *f, const struct error *why)
{
	if (f->why.code == ERR_NONE)
		f->why = *why;
	uv_stop(f->loop);
}
