package mistake

var values = Group{"Fields and values", "children.md", []Explanation{
	{
		UnknownField, "The type has no field of this name. It is misspelled, or stands too deep or not deep enough.",
		"Write the name that the message proposes, or move the field.",
		`imagePullpolicy: "Always"`, `imagePullPolicy: "Always"`,
	},
	{
		UnknownType, "The `apiVersion` has no kind of this name in the release of Kubernetes that Fescue knows.",
		"Correct the group, the version or the kind. `kubectl api-resources` lists them.",
		`template: {apiVersion: "v1", kind: "Deployment"}`, `template: {apiVersion: "apps/v1", kind: "Deployment"}`,
	},
	{
		UncheckedType, "Nothing is known of this type, so Fescue checks none of its fields.",
		"Give vet the CRD of the type.",
		`fescue vet --kinds ./my-kinds`, `fescue vet --kinds ./my-kinds --types crds.yaml`,
	},
	{
		WrongType, "The field takes a value of another type.",
		"Convert the value. The message shows how, if there is one way.",
		`value: object.spec.parts`, `value: "\(object.spec.parts)"`,
	},
	{
		UnsupportedValue, "The field takes one of a few words, and this is none of them. Upper and lower case differ.",
		"Write one of the words in the message.",
		`protocol: "tcp"`, `protocol: "TCP"`,
	},
	{
		MissingField, "A required field is missing.",
		"Add it.",
		`env: [{value: "x"}]`, `env: [{name: "MODE", value: "x"}]`,
	},
	{
		OutOfRange, "The number is smaller or larger than the field allows.",
		"Write a number within the range.",
		`containerPort: 70000`, `containerPort: 7000`,
	},
	{
		InvalidQuantity,
		"Kubernetes cannot read the quantity. Its units are `m`, `k`, `M`, `G`, `Ki`, `Mi`, `Gi` and so on.",
		"Write a quantity of Kubernetes.",
		`memory: "64MB"`, `memory: "64Mi"`,
	},
	{
		InvalidPercentage, "The field takes a whole number or a percentage, and the text is, or may be, neither.",
		"Write a number, or end the text in `%`.",
		`maxSurge: "25"`, `maxSurge: "25%"`,
	},
	{
		InvalidBase64, "The values in `data` of a Secret and in `binaryData` of a ConfigMap are base64.",
		"Write plain text into `stringData`, or into `data` of the ConfigMap.",
		`data: password: "secret!"`, `stringData: password: "secret!"`,
	},
	{
		DuplicateItem, "Two items of a list have the same key. Kubernetes keeps one of them, or rejects the list.",
		"Give each item a key of its own.",
		`env: [{name: "A", value: "1"}, {name: "A", value: "2"}]`,
		`env: [{name: "A", value: "1"}, {name: "B", value: "2"}]`,
	},
	{
		MutuallyExclusive, "Kubernetes accepts only one of these fields.",
		"Remove one of them.",
		"minAvailable:   1\nmaxUnavailable: 1", "minAvailable: 1",
	},
	{
		MinimumAboveMaximum,
		"The lower figure is above the upper one: `minReplicas` above `maxReplicas`, or a request above its limit.",
		"Lower the first, or raise the second.",
		"requests: memory: \"64Mi\"\nlimits: memory:   \"32Mi\"",
		"requests: memory: \"32Mi\"\nlimits: memory:   \"64Mi\"",
	},
	{
		UnknownPort, "A probe or a Service names a port that no container has.",
		"Name a port of the container, or write its number.",
		"ports: [{containerPort: 80}]\nreadinessProbe: httpGet: port: \"http\"",
		"ports: [{name: \"http\", containerPort: 80}]\nreadinessProbe: httpGet: port: \"http\"",
	},
	{
		UnknownVolume, "A container mounts a volume that the Pod does not have.",
		"Add the volume, or correct the name.",
		"volumeMounts: [{name: \"dta\", mountPath: \"/data\"}]\nvolumes: [{name: \"data\", emptyDir: {}}]",
		"volumeMounts: [{name: \"data\", mountPath: \"/data\"}]\nvolumes: [{name: \"data\", emptyDir: {}}]",
	},
	{
		SelectorMismatch,
		"The selector of a workload does not match the labels of its own Pods. The API server rejects it.",
		"Give the selector and the template the same labels.",
		"selector: matchLabels: app: \"web\"\ntemplate: metadata: labels: name: \"web\"",
		"selector: matchLabels: app: \"web\"\ntemplate: metadata: labels: app: \"web\"",
	},
	{
		SelectorWithoutPods, "The selector of a Service or a PodDisruptionBudget matches the Pods of no child.",
		"Select by labels that the Pods have.",
		`selector: ap: object.metadata.name`, `selector: app: object.metadata.name`,
	},
	{
		RemovedVolume, "Kubernetes removed this type of volume, or moved it to CSI. It cannot be injected.",
		"Use `persistentVolumeClaim` or `csi`, and `image` or `emptyDir` instead of `gitRepo`.",
		`volumes: [{name: "disk", awsElasticBlockStore: volumeID: "vol-1"}]`,
		`volumes: [{name: "disk", persistentVolumeClaim: claimName: "disk"}]`,
	},
	{
		InvalidValue,
		"The API server rejects this value whatever the object is.",
		"Write a value that the message allows.",
		`ports: [{name: "http_metrics", containerPort: 80}]`, `ports: [{name: "http-metrics", containerPort: 80}]`,
	},
}}
