package mistake

var expressions = Group{"Expressions", "reference/constructs.md", []Explanation{
	{
		UnknownChild, "`observed` has no child and no entry of `reads` with this name.",
		"Write the name of a child or of an entry of `reads`.",
		`ready: observed.wbe.status.readyReplicas`, `ready: observed.web.status.readyReplicas`,
	},
	{
		NotAStruct, "A field of a list, a text or a number is read, and these have no fields.",
		"Read the struct around it. For a list, loop over its items.",
		`status: available: observed.web.status.conditions.Available`,
		`status: available: [for c in observed.web.status.conditions if c.type == "Available" {c.status}, "Unknown"][0]`,
	},
	{
		NotAList, "A `for` or an index needs a list, or a struct.",
		"Loop over a list or a struct.",
		`env: [for v in object.spec.image {name: v}]`, `env: [for v in object.spec.names {name: v}]`,
	},
	{
		ShortList, "The list may have fewer items than the index needs. The object would be `Stalled`.",
		"Test the length first, or require the items in the schema. Indexes begin with 0.",
		`image: object.spec.args[0]`, "if len(object.spec.args) > 0 {\n\timage: object.spec.args[0]\n}",
	},
	{
		WrongOperand, "An operator, a function or a string cannot take a value of this type.",
		"Convert the value first: write `\"\\(n)\"` for a text from a number, and `list.Concat` to join lists.",
		`args: ["-v"] + object.spec.args`, `args: list.Concat([["-v"], object.spec.args])`,
	},
	{
		ConditionNotBool, "An `if` or a `when` needs true or false.",
		"Compare the value. Put a default into parentheses before you compare it.",
		"if *object.spec.host | \"\" == \"www\" {\n\turl: \"www\"\n}",
		"if (*object.spec.host | \"\") == \"www\" {\n\turl: \"www\"\n}",
	},
	{
		ImpossibleComparison,
		"The two sides can never be equal: one has another type, or is a word that the other never has.",
		"Compare with a value that the field can have.",
		`when: observed.pod.status.phase == "Success"`, `when: observed.pod.status.phase == "Succeeded"`,
	},
	{
		DivisionByZero, "The divisor is 0, or may be 0. The object would be `Stalled`.",
		"Exclude 0 in the schema, or test for it first.",
		`parts!: int & >=0`, `parts!: int & >=1`,
	},
	{
		NotInterpolated, "A string has a value in the notation of kro, Helm or a shell, which CUE does not replace.",
		"Write `\\(` and `)` around the expression, or the expression alone without quotes.",
		`host: "${schema.spec.name}.example.com"`, `host: "\(object.spec.name).example.com"`,
	},
}}
