/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* `gpuslice plan --translate FILE...`. Thread: main. */
#include "lib/base/error.h"
#include "lib/base/strv.h"

/* Prints notes on mistakes in @files, then the current Karpenter objects for their Provisioners. */
int plan_translate(const struct strv *files, struct error *err) MUST_USE;
