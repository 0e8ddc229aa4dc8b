package mistake

var readsAndDecorators = Group{"Reads, decorators and injection", "reads.md", []Explanation{
	{
		NameOrSelector, "An entry of `reads` is one object by its name, or all that a selector selects.",
		"Write either `name` or `selector`.",
		`reads: settings: {apiVersion: "v1", kind: "ConfigMap"}`,
		`reads: settings: {apiVersion: "v1", kind: "ConfigMap", name: "settings"}`,
	},
	{
		UnstableRead,
		"What an object reads follows from its `spec`, name, namespace, labels and annotations. It cannot depend on anything else.",
		"Compute it from these.",
		`name: object.status.config`, `name: object.spec.config`,
	},
	{
		DecoratorRead,
		"The entry of a decorator depends on the object. Nobody checks whether the user who writes the object may read what it names.",
		"Name one object for all.",
		`reads: password: {apiVersion: "v1", kind: "Secret", name: object.metadata.name}`,
		`reads: password: {apiVersion: "v1", kind: "Secret", name: "password"}`,
	},
	{
		InjectReadsChildren, "What Pods get is known before there are children, so `inject` cannot read them.",
		"Read the object, or an entry of `reads`.",
		`inject: add: metadata: labels: config: observed.config.metadata.name`,
		`inject: add: metadata: labels: config: object.metadata.name`,
	},
	{
		ConditionalInjection,
		"All of `inject` is in an `if`. Whether a kind injects must be the same for all its objects.",
		"Write the `if` inside of `add`.",
		"if object.spec.debug {\n\tinject: {annotation: \"example.com/tap\", add: metadata: labels: debug: \"true\"}\n}",
		"inject: {\n\tannotation: \"example.com/tap\"\n\tadd: {\n\t\tif object.spec.debug {metadata: labels: debug: \"true\"}\n\t}\n}",
	},
	{
		ClosedObserved,
		"The declaration of `observed` is closed. An observed object with any other field stalls the object of the kind.",
		"Write `_`, or end each struct in `...`.",
		"#Observed: config: data: host: string\nobserved: #Observed", `observed: _`,
	},
	{
		DecoratorField,
		"A decorator adds to objects of another kind. It has no status, no phases and no CRD of its own, and deletes only what it created.",
		"Remove the field.",
		`phases: RUNNING: terminal: true`, `children: service: template: kind: "Service"`,
	},
}}
