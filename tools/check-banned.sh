#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Calls that are a mistake here. base/banned.h stops most of them at compile time; this check also
# sees code that is not compiled on this machine, and knows the exceptions by file.
set -euo pipefail

if [[ ${1-} == --help ]]; then
	echo "usage: tools/check-banned.sh"
	echo "Reports banned calls in src/ and test/, outside comments and strings."
	exit 0
fi
cd "$(dirname "$0")/.."

find src test -name '*.[ch]' ! -name banned.h -print0 | LC_ALL=C sort -z | xargs -0 perl -e '
	use strict;
	my %instead = (
		(map { $_ => "use snprintf() or struct buf" } qw(strcpy strcat strncpy sprintf vsprintf stpcpy)),
		(map { $_ => "use base/parse.h" } qw(atoi atol atoll atof)),
		(map { $_ => "use base/parse.h (strto* only in base/parse.c)" }
			qw(strtol strtoul strtoll strtoull strtoimax strtoumax strtod strtof strtold)),
		(map { $_ => "use posix_spawn() or uv_spawn(), without a shell" } qw(system popen)),
		strtok => "use strv_split() or strtok_r()",
		gets => "use fgets()", tmpnam => "use mkstemp()", mktemp => "use mkstemp()",
		(map { $_ => "use the _r form, or base/time.h" } qw(localtime gmtime ctime asctime)),
	);
	# One call in one file, with the reason beside it in that file.
	my %allowed = map { $_ => 1 } map { "src/lib/base/parse.c $_" } grep { /^strto[^k]/ } keys %instead;
	my $names = join "|", map { quotemeta } keys %instead;
	my ($files, $bad) = (0, 0);
	for my $file (@ARGV) {
		open my $f, "<", $file or die "$file: $!\n";
		my $text = do { local $/; <$f> };
		$files++;
		# Blank out comments, strings and characters; keep the line breaks.
		$text =~ s{(/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\x27(?:\\.|[^\x27\\\n])*\x27)}
			{ (my $blank = $1) =~ s/[^\n]//g; $blank }gse;
		my $line = 0;
		for (split /\n/, $text) {
			$line++;
			while (/(?<![\w.>])($names)\s*\(/g) {
				next if $allowed{"$file $1"};
				print "$file:$line: $1(): $instead{$1}\n";
				$bad++;
			}
		}
	}
	print "$files files, $bad banned calls\n";
	exit($bad > 0);
' || exit 1
