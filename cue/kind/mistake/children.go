package mistake

var children = Group{"Children, sets and rights", "children.md", []Explanation{
	{
		DuplicateName,
		"Two children of one type have the same name, or a child and an entry of `reads` do. Fescue could not tell them apart.",
		"Give them different names.",
		`reads: web: {apiVersion: "v1", kind: "Secret", name: "web"}`,
		`reads: password: {apiVersion: "v1", kind: "Secret", name: "web"}`,
	},
	{
		SharedName, "All objects of the kind name this child alike. The first object gets it, and the others wait.",
		"Add the name of the object to the name of the child.",
		`metadata: name: "site-config"`, `metadata: name: "\(object.metadata.name)-config"`,
	},
	{
		LiteralName, "In a loop, the name of the variable stands as a field. All items make one child of this name.",
		"Put the variable into parentheses.",
		"for size in object.spec.sizes {\n\tsize: template: kind: \"ConfigMap\"\n}",
		"for size in object.spec.sizes {\n\t(size): template: kind: \"ConfigMap\"\n}",
	},
	{
		UndeclaredType,
		"A child exists only under a condition, and no other child has its type. Fescue must know all types before there are objects.",
		"List the type in `owns`.",
		"if object.spec.public {\n\tservice: template: {apiVersion: \"v1\", kind: \"Service\"}\n}",
		`owns: [{apiVersion: "v1", kind: "Service"}]`,
	},
	{
		IfDeletesChild,
		"The `if` around the child reads `observed`. When it no longer holds, Fescue deletes the child.",
		"If the child should only wait, write `when` in it.",
		"if observed.web.status.readyReplicas > 0 {\n\tdone: template: kind: \"Job\"\n}",
		"done: {\n\twhen: observed.web.status.readyReplicas > 0\n\ttemplate: kind: \"Job\"\n}",
	},
	{
		ReusedName, "The phase can be entered again, and its child keeps its name. Fescue deletes the child of the last time first, even while it runs.",
		"To keep it, add the time to the name.",
		`metadata: name: "nightly-\(object.metadata.name)"`,
		`metadata: name: "nightly-\(time.FormatString("20060102-1504", object.status.lastScheduleTime))"`,
	},
	{
		OptionalField,
		"A template reads an optional field. While the field is absent, the child waits, or the object is `Stalled`.",
		"Give the field a default, or put an `if` around it.",
		`data: host: object.spec.host`, `data: host: *object.spec.host | "localhost"`,
	},
	{
		WaitingCycle, "Children wait for each other, or for themselves, so none of them is ever created.",
		"Let one of them read something else.",
		`config: template: data: host: observed.config.metadata.name`,
		`config: template: data: host: object.metadata.name`,
	},
	{
		EndlessChildren, "The objects create objects of their own kind, perhaps through other kinds, without end.",
		"Put an `if` around one of the children, and let it fail at some depth.",
		`children: next: template: kind: "Web"`,
		"if object.spec.depth > 0 {\n\tchildren: next: template: {kind: \"Web\", spec: depth: object.spec.depth - 1}\n}",
	},
	{
		SelectsOwnChildren,
		"An entry of `reads` may select the children of the kind. If they grow with what it selects, they never stop growing.",
		"Select by a label that the children do not have.",
		`reads: others: {apiVersion: "v1", kind: "ConfigMap", selector: {}}`,
		`reads: others: {apiVersion: "v1", kind: "ConfigMap", selector: matchLabels: source: "team"}`,
	},
	{
		ConditionalSet,
		"A set is in an `if`, or in a `for` over parts of the object. Without it, Fescue could not find the members to delete.",
		"Write the set always, with 0 replicas for none.",
		"if object.spec.public {\n\tpods: replicas: 3\n}",
		"_replicas: [if object.spec.public {3}, 0][0]\npods: replicas: _replicas",
	},
	{
		InvalidSet, "`ordered` and `strays` are for sets. A set has `replicas`, and is the same in all phases.",
		"Add `replicas`, or remove `ordered` and `strays`. State the set alike in all phases. With `strays`, give the template a label that names its object.",
		`config: ordered: true`, `config: {replicas: 3, ordered: true}`,
	},
	{
		IndexOutsideSet, "Only the template of an ordered set can read `index`: nothing else has one.",
		"Add `ordered: true` to the set, or do not read `index`.",
		`pods: {replicas: 3, template: metadata: labels: n: "\(index)"}`,
		`pods: {replicas: 3, ordered: true, template: metadata: labels: n: "\(index)"}`,
	},
	{
		IndexInIdentity, "The members of a set share their type, their namespace and the first part of their name.",
		"Do not read `index` there. Fescue appends it to the name.",
		`metadata: name: "web-\(index)"`, `metadata: name: "web"`,
	},
	{
		UnneededNamespace, "Objects of this type have no namespace.",
		"Remove it.",
		`metadata: {name: "team", namespace: "team"}`, `metadata: name: "team"`,
	},
	{
		MissingNamespace, "Objects of this type have a namespace, and those of the kind have none that could be used.",
		"Add the namespace.",
		`metadata: name: "config"`, `metadata: {name: "config", namespace: object.spec.namespace}`,
	},
	{
		WrongScope, "The scope does not fit: of a decorator and its target, of a decorator and its children, or of a kind that injects.",
		"Set `scope` to that of the target, and keep children in the namespace of the target.",
		`target: {apiVersion: "v1", kind: "Node"}`, "scope:  \"Cluster\"\ntarget: {apiVersion: \"v1\", kind: \"Node\"}",
	},
	{
		NeedsRights,
		"Kubernetes lets only someone with the rights in a role create it, or bind it. `fescue manifests` does not give the operator these rights.",
		"Grant them yourself, as the page describes.",
		"", "",
	},
	{
		ExposedSecret,
		"A value of a Secret, or of another sensitive object, goes where more people can read it: the status, a ConfigMap or a name.",
		"Put it into a Secret.",
		`config: template: {kind: "ConfigMap", data: password: observed.secret.data.password}`,
		`config: template: {kind: "Secret", data: password: observed.secret.data.password}`,
	},
}}
