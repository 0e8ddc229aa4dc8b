package mistake

var versions = Group{"Versions", "versions.md", []Explanation{
	{
		LostField, "One version has a field that the other lacks, and no conversion keeps it. Users would lose its value.",
		"Declare the field in both, convert it in both directions, or do not serve the other version.",
		"#Backup: spec!: schedule?: string\n#BackupV1beta1: spec!: {}",
		"#Backup: spec!: schedule?: string\n#BackupV1beta1: spec!: schedule?: string",
	},
	{
		TypeDiffers, "The field has different types in two versions, and the conversion does not state it.",
		"Convert it in `toStored` and in `fromStored`.",
		`toStored: spec: {}`, `toStored: spec: keep: strconv.Atoi(object.spec.keep)`,
	},
	{
		StatusDiffers, "Conversions copy the status, and the two versions have different ones.",
		"Give both the status of one definition.",
		`status?: {contract.#Status, runs?: int}`, `status?: #BackupStatus`,
	},
	{
		CopiedField, "A conversion copies this part as it is.",
		"Leave it out.",
		`toStored: metadata: name: "other"`, `toStored: spec: keep: 1`,
	},
	{
		ReadsResult,
		"`toStored` makes `stored` from `object`, and `fromStored` makes `object` from `stored`. Neither can read what it makes.",
		"Read the other side.",
		`toStored: spec: schedule: stored.spec.schedule`, `toStored: spec: schedule: object.spec.cron`,
	},
	{
		FailedConversion,
		"The conversion fails for an object that the version allows, or makes an invalid one. The message shows the object.",
		"Convert every object that the schema allows, or let the schema allow less.",
		`keep!: string`, `keep!: =~"^[0-9]{1,9}$"`,
	},
	{
		LossyConversion,
		"An object is not the same after a conversion there and back. The message shows the part and the object.",
		"Keep all parts, or let the schemas allow only values that survive.",
		`volumes!: [...string]`, `volumes!: [...=~"^[a-z-]+$"]`,
	},
	{
		NarrowVersion, "One version allows objects that are invalid in the other. Admission rejects them.",
		"Let both versions allow the same values, if you can.",
		`cron?: strings.MaxRunes(10)`, `cron?: strings.MaxRunes(100)`,
	},
	{
		UnneededWarning, "A `deprecationWarning` is for a deprecated version.",
		"Add `deprecated: true`, or remove the warning.",
		`deprecationWarning: "use v1"`, "deprecated:         true\ndeprecationWarning: \"use v1\"",
	},
}}
