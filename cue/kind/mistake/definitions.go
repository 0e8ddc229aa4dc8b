package mistake

var definitions = Group{"Definitions and names", "kinds.md", []Explanation{
	{
		MisnamedDefinition,
		"The definition is a controller, a decorator or a conversion, but its name does not say of what.",
		"Name it `#XController`, `#XDecorator` or `#XConversion`, where `#X` is the definition of the objects.",
		`#Decorated: contract.#Decorator & {`, `#PodDecorator: contract.#Decorator & {`,
	},
	{
		MissingContract,
		"The definition has the name of a controller or of a conversion, but does not embed the contract. Fescue cannot check it.",
		"Embed the definition of the contract.",
		`#WebController: {`, `#WebController: contract.#Controller & {`,
	},
	{
		InvalidAPIVersion,
		"The `apiVersion` is not a group and a version. The core group of Kubernetes has a version alone; a kind of yours needs a group.",
		"Write a group, a slash and a version.",
		`apiVersion!: "v1"`, `apiVersion!: "example.com/v1"`,
	},
	{
		KindName, "The field `kind` differs from the name of the definition.",
		"Give both the same name.",
		"#Web: {\n\tkind!: \"Site\"\n}", "#Web: {\n\tkind!: \"Web\"\n}",
	},
	{
		DuplicateVersion, "Two definitions have the same kind and version.",
		"Give the second one a version of its own, or remove it.",
		`#WebV1: {apiVersion!: "example.com/v1", kind!: "Web", metadata!: {name!: string, ...}}`,
		`#WebV1beta1: {apiVersion!: "example.com/v1beta1", kind!: "Web", metadata!: {name!: string, ...}}`,
	},
	{
		ProtectedGroup,
		"The group belongs to the Kubernetes project. The API server accepts a CRD of it only with an approval.",
		"Use a group in a domain of your own, or set `approval`.",
		`apiVersion!: "web.k8s.io/v1"`, `apiVersion!: "web.example.com/v1"`,
	},
	{
		RejectedCRD, "The API server would reject the CRD. Fescue checks it with the API server's own library.",
		"Correct what the message names. Its paths are those of the CRD: `fescue crd` prints it.",
		`names: plural: "Webs"`, `names: plural: "webs"`,
	},
	{
		InvalidName, "Kubernetes does not accept the name. Most names have lower case letters, digits, `-` and `.`.",
		"Write a valid name. If it is computed, convert what it is made from.",
		`metadata: name: "\(object.metadata.name)_web"`, `metadata: name: "\(object.metadata.name)-web"`,
	},
	{
		InvalidSelector, "Kubernetes cannot read the label selector.",
		"Give `In` and `NotIn` at least one value, and `Exists` and `DoesNotExist` none.",
		`selector: matchExpressions: [{key: "app", operator: "In"}]`,
		`selector: matchExpressions: [{key: "app", operator: "Exists"}]`,
	},
	{
		StatusSchema,
		"The schema of the status lacks fields that Fescue writes, or gives them another type. The API server would drop or reject them.",
		"Embed `contract.#Status` in the status, and let `phase` be a string with the names of the phases.",
		`status?: {contract.#Status, phase?: int}`, `status?: {contract.#Status, phase?: string}`,
	},
	{
		EngineStatus, "Fescue itself writes this field of the status.",
		"Remove it from `status`, or choose another name.",
		`status: observedGeneration: 1`, `status: generation: 1`,
	},
	{
		UnsetStatus, "The schema has a field of the status that the behaviour never sets. Fescue writes the whole status, so what others write there does not stay.",
		"Set the field in `status` of the controller, or remove it from the schema.",
		`status: ready: 1`, "status: {ready: 1, url: object.spec.host}",
	},
	{
		ReservedCondition, "Fescue itself writes the condition, or its type is not a valid name.",
		"Choose another type.",
		`conditions: Ready: status: observed.config.metadata.uid != ""`,
		`conditions: Configured: status: observed.config.metadata.uid != ""`,
	},
	{
		InvalidScale,
		"A path of `scale` does not lead to a field of the right type. `spec` and `status` are whole numbers of at least 0, `selector` is a string.",
		"Write the path with a dot, and give the field the right type.",
		`scale: {spec: ".spec.replicsa", status: ".status.ready"}`,
		`scale: {spec: ".spec.replicas", status: ".status.ready"}`,
	},
	{
		ScaleWithoutSelector,
		"A HorizontalPodAutoscaler finds the Pods of an object by the selector alone. Without it, it cannot scale.",
		"Name a field of the status that has the labels of the Pods as text.",
		`scale: {spec: ".spec.replicas", status: ".status.ready"}`,
		"scale: {spec: \".spec.replicas\", status: \".status.ready\", selector: \".status.selector\"}\nstatus: selector: \"app=\\(object.metadata.name)\"",
	},
	{
		NotConstant, "Fescue needs this value before there is any object, for example for the rights of the operator.",
		"Write a literal, the same for all objects of the kind.",
		`kind:       object.spec.config`, `kind:       "ConfigMap"`,
	},
	{
		NoUpperLimit,
		"A string, list or map of the schema may have any size. Objects can become too large, and the API server accepts few CEL rules for such a schema.",
		"Limit strings by `strings.MaxRunes`, lists by `list.MaxItems` and maps by `struct.MaxFields`.",
		"host!: string\npaths?: [...string]",
		"host!: strings.MaxRunes(253)\npaths?: list.MaxItems(10) & [...strings.MaxRunes(100)]",
	},
	{
		FixedValue, "In a schema, a value alone allows nothing else: users cannot set another one.",
		"Mark a default with `*`, and write what else is allowed after it.",
		"replicas: 3", "replicas: *3 | int & >=1 & <=9",
	},
	{
		LooseDefault, "A default that a bound beside it does not allow is valid all the same, since `&` binds tighter than `|`. Two different defaults are none.",
		"Write the bound for the default as well, as in `(*10 | int32) & >=min`, or mark one value with `*`.",
		"size: *2000 | int32 & <=1000", "size: *200 | int32 & <=1000",
	},
	{
		BeyondBudget, "The schema allows objects for which the behaviour has to compute too much. Such an object is stored, and `Stalled`.",
		"Lower the limits of what the behaviour loops over, keep what is used in many places in one hidden field, or make a kind of the inner part.",
		"groups!: int32 & <=100\nmembers!: int32 & <=1000", "groups!: int32 & <=10\nmembers!: int32 & <=20",
	},
}}
