package mistake

var cueItself = Group{"CUE", "cue.md", []Explanation{
	{
		CUESyntax, "The file is not valid CUE: a quote, a bracket or a comma is missing, or a line is written as in another language. Fescue loads the other files of the folder.",
		"Correct the line. `cue fmt` finds the place too.",
		`names: plural: "sites`, `names: plural: "sites"`,
	},
	{
		FailedImport, "CUE cannot find an imported package: its name is misspelled, or its module cannot be fetched.",
		"Write the path of a package of CUE, of Fescue, or of a dependency in `cue.mod/module.cue`.",
		`import "strngs"`, `import "strings"`,
	},
	{
		UnresolvedReference,
		"CUE finds nothing of this name. A reference finds only names around it in its own file, and definitions of the package.",
		"Correct the name, or import its package. For `object`, `observed` and `index`, declare them in the controller.",
		`data: mode: strings.ToUpper(object.spec.mode)`,
		"import \"strings\"\n\ndata: mode: strings.ToUpper(object.spec.mode)",
	},
	{
		UnknownFunction, "The imported package has no function of this name.",
		"Write the name of a function that the package has.",
		`strings.Upper(object.spec.mode)`, `strings.ToUpper(object.spec.mode)`,
	},
	{
		ConflictingValues,
		"Two places state different values for one field, and CUE unifies them. One is often the contract, which states the type.",
		"Write a value that fits both, or remove one.",
		`PENDING: next: {to: "RUNNING", after: "5s"}`, `PENDING: next: [{to: "RUNNING", after: "5s"}]`,
	},
	{
		CUEError, "CUE cannot evaluate an expression of the kind. The message is CUE's own.",
		"Correct the expression. `cue vet` prints the details.",
		`_parts: n: strconv.FormatInt({}, 10)`, `_parts: n: strconv.FormatInt(object.spec.size, 10)`,
	},
	{
		SelfReference,
		"A name refers to the nearest field of this name, and that is the field itself, one that leads back to it, or one around it as in a child.",
		"Begin with `object` to read the field of the object, or rename the field. In a schema, CUE's own type is `__string`, and a definition contains itself only in an optional field or a list.",
		`replicas: spec.replicas`, `replicas: object.spec.replicas`,
	},
	{
		UnsupportedCUE, "Fescue compiles schemas and behaviours, and does not know this construct.",
		"Write it with literals, definitions, bounds, `&` and `|`, as the message proposes. A schema has no arithmetic and no loops: write a bound for each case, as in `if size == 2 {memory?: <=2048}`. A rule that needs them can be a condition of the behaviour. To create and change a child only while it holds, have its template read a field that is under an `if`, as in `_valid: {if _sum == 100 {weights: _weights}}` and `_valid.weights`: without it, the child waits.",
		`paths?: [string, string]`, `paths?: list.MaxItems(2) & [...string]`,
	},
	{
		NestedDefinition,
		"A schema refers to a definition within another definition. Fescue compiles those at the top of a file.",
		"Move the definition to the top of its file.",
		"#Parts: #Host: string\nhost!: #Parts.#Host", "#Host: string\nhost!: #Host",
	},
	{
		QuotedDefinition, "A name in quotes is a field like any other, even if it begins with `#`.",
		"Remove the quotes.",
		`"#Host": string`, `#Host: string`,
	},
	{
		InvalidAttribute,
		"`@kube(…)` has an argument that Fescue does not know, or a value that the argument does not take.",
		"Write an argument that the message lists.",
		`paths?: [...string] @kube(secret)`, `paths?: [...string] @kube(listType=set)`,
	},
	{
		DiffersFromCUE,
		"Fescue and CUE's evaluator decide differently for an object. That is a bug in Fescue, or a known difference.",
		"Look for the construct on the page below. Report it if you do not find it there.",
		"", "",
	},
	{
		LoadLimit, "Loading the kind takes more time or memory than allowed, so Fescue stops it to protect the other kinds.",
		"Make the schema and the behaviour smaller, or raise `--load-timeout`.",
		"", "",
	},
}}
