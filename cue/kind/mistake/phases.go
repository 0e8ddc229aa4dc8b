package mistake

var phasesAndTime = Group{"Phases and time", "phases.md", []Explanation{
	{
		UnknownPhase, "`to`, `initial` or `onDelete` names a phase that the kind does not have.",
		"Write the name of a phase.",
		`next: [{to: "DNOE", after: "5m"}]`, `next: [{to: "DONE", after: "5m"}]`,
	},
	{
		UnreachablePhase, "No transition leads to the phase, and it is not the initial one. No object ever enters it.",
		"Add a transition to it, or remove the phase.",
		"RUNNING: next: [{to: \"DONE\", after: \"5m\"}]\nREPORTING: next: [{to: \"DONE\", after: \"1m\"}]",
		"RUNNING: next: [{to: \"REPORTING\", after: \"5m\"}]\nREPORTING: next: [{to: \"DONE\", after: \"1m\"}]",
	},
	{
		TerminalPhase, "A terminal phase is the end, so its transitions are never taken.",
		"Remove `terminal` or `next`.",
		"DONE: {\n\tterminal: true\n\tnext: [{to: \"PENDING\", after: \"1h\"}]\n}", "DONE: terminal: true",
	},
	{
		NoWayOut, "No transition leads out of the phase, and it is not terminal. The object stays in it.",
		"If it is an end, write `terminal: true`. Otherwise, add a transition.",
		`DONE: {}`, `DONE: terminal: true`,
	},
	{
		NeverTaken, "The transition never happens: its condition never holds, or an earlier transition always comes first.",
		"Correct the condition, or remove one of the two. The first that holds is taken.",
		"next: [\n\t{to: \"DONE\", when: observed.job.status.succeeded > 0},\n\t{to: \"FAILED\", when: observed.job.status.succeeded > 0},\n]",
		"next: [\n\t{to: \"DONE\", when: observed.job.status.succeeded > 0},\n\t{to: \"FAILED\", when: observed.job.status.failed > 0},\n]",
	},
	{
		InvalidTime,
		"Fescue cannot read the duration, the time, the `cron` schedule or the time zone, or two of them exclude each other.",
		"Write a duration like `5m`, a time in RFC 3339, five fields of cron, and a zone like `Europe/Berlin`. A transition has `after` or `cron`.",
		`next: [{to: "RUNNING", after: "5 seconds"}]`, `next: [{to: "RUNNING", after: "5s"}]`,
	},
	{
		DeadlineWithPhases, "`deadline` is for kinds without phases. With phases, transitions have the times.",
		"Give the phase a transition with `after`.",
		`deadline: "5m"`, `phases: RUNNING: next: [{to: "FAILED", after: "5m"}]`,
	},
	{
		EndlessDeletion,
		"No terminal phase follows the phase of `onDelete`. A deleted object would never be gone, or nothing would be done for it.",
		"Name a phase that leads to a terminal one.",
		"onDelete: \"CLEANING\"\nphases: CLEANING: next: [{to: \"CLEANING\", after: \"1m\"}]",
		"onDelete: \"CLEANING\"\nphases: CLEANING: next: [{to: \"GONE\", after: \"1m\"}]",
	},
}}
