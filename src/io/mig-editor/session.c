/* SPDX-License-Identifier: Apache-2.0 */
#include "io/mig-editor/session.h"

int mig_session_result(const struct mig_session *s, struct error *err, enum nvml_call call,
	nvmlReturn_t r)
{
	return r == NVML_SUCCESS ? 0 : nvml_error(err, &s->nvml, call, r);
}

int mig_session_start(struct mig_session *s, struct error *err)
{
	s->calls++;
	if (nvml_init(&s->nvml, err) < 0)
		return -1;
	s->up = true;
	return 0;
}

void mig_session_stop(struct mig_session *s)
{
	if (!s->up)
		return;
	s->calls++;
	(void)s->nvml.nvmlShutdown();
	s->up = false;
}
