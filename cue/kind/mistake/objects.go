package mistake

var objects = Group{"Objects", "vet.md", []Explanation{
	{
		UnreadableFile, "The file or folder cannot be read, has no manifests, or is too large.",
		"Correct the path, or split the file.", "", "",
	},
	{
		InvalidManifest, "The file is not valid YAML or JSON, or has a key twice.",
		"Correct the line. Keys that stand twice are one of them too many.",
		"spec:\n  image: a\n  image: b", "spec:\n  image: b",
	},
	{
		UnknownKind, "No kind has this `apiVersion` and `kind`.",
		"Correct them, or add the kind with `--kinds`.",
		"apiVersion: cnat.fescue.dev/v1\nkind: At", "apiVersion: cnat.fescue.dev/v1alpha1\nkind: At",
	},
	{
		NothingChecked,
		"Vet found no object of a known kind. A wrong path or group would pass for valid manifests otherwise.",
		"Correct the path or the group, or add the kinds with `--kinds`.",
		`fescue vet site.yaml`, `fescue vet --kinds ./my-kinds site.yaml`,
	},
	{
		StalledObject,
		"The behaviour fails for this object, or a child does not fit its type. The object would be `Stalled`.",
		"Correct the object. If the schema should not allow it, correct the kind.",
		"spec: {size: many}", "spec: {size: \"3\"}",
	},
	{
		NeverReady, "On a healthy cluster, the object does not become ready. The message says what it waits for.",
		"Put what it reads into the same file. It is an error only if nothing else can help.", "", "",
	},
	{
		UnreachedPhase, "On a healthy cluster, whether Jobs succeed or fail, the object is never in the phase.",
		"Check the transitions to the phase, or try an object with other values.", "", "",
	},
	{
		BlockedDeletion, "After it is deleted on a healthy cluster, the object stays until someone changes something.",
		"Check the transitions of the phases for the deletion. A transition with `after` ends the wait.",
		`next: [{to: "GONE", when: observed.job.status.succeeded > 0}]`,
		"next: [\n\t{to: \"GONE\", when: observed.job.status.succeeded > 0},\n\t{to: \"GONE\", after: \"1h\"},\n]",
	},
}}
