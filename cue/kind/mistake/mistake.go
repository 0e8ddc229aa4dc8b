// Package mistake names and explains what vet finds: the cause of each mistake, and how to fix it. vet prints the name
// at the end of its message, `fescue explain NAME` the explanation, and docs/reference/errors.md has all of them.
//
// It knows neither kinds nor CUE, nor where a mistake is: the packages that find one report it under its name.
package mistake

// Check is the name of a check of vet. It stays the same from release to release.
type Check string

// Explanation explains what a check reports.
type Explanation struct {
	Check Check
	// Cause says what is wrong, and Fix what to write.
	Cause, Fix string
	// Before and After are an example; empty if a mistake has no short one.
	Before, After string
}

// Group is a part of the page of all checks.
type Group struct {
	Title string
	// Page is the page of docs/ with more about these checks.
	Page         string
	Explanations []Explanation
}

// Groups returns all checks.
func Groups() []Group {
	return []Group{cueItself, definitions, values, expressions, children, phasesAndTime, readsAndDecorators, versions,
		objects}
}

// All returns the explanations of all checks.
func All() (all []Explanation) {
	for _, group := range Groups() {
		all = append(all, group.Explanations...)
	}
	return all
}

// CUE itself.
const (
	CUESyntax           Check = "cue-syntax"
	FailedImport        Check = "failed-import"
	UnresolvedReference Check = "unresolved-reference"
	UnknownFunction     Check = "unknown-function"
	ConflictingValues   Check = "conflicting-values"
	CUEError            Check = "cue-error"
	SelfReference       Check = "self-reference"
	UnsupportedCUE      Check = "unsupported-cue"
	NestedDefinition    Check = "nested-definition"
	QuotedDefinition    Check = "quoted-definition"
	InvalidAttribute    Check = "invalid-attribute"
	DiffersFromCUE      Check = "differs-from-cue"
	LoadLimit           Check = "load-limit"
)

// Definitions and names.
const (
	MisnamedDefinition   Check = "misnamed-definition"
	MissingContract      Check = "missing-contract"
	InvalidAPIVersion    Check = "invalid-api-version"
	KindName             Check = "kind-name"
	DuplicateVersion     Check = "duplicate-version"
	ProtectedGroup       Check = "protected-group"
	RejectedCRD          Check = "rejected-crd"
	InvalidName          Check = "invalid-name"
	InvalidSelector      Check = "invalid-selector"
	StatusSchema         Check = "status-schema"
	EngineStatus         Check = "engine-status"
	UnsetStatus          Check = "unset-status"
	ReservedCondition    Check = "reserved-condition"
	InvalidScale         Check = "invalid-scale"
	ScaleWithoutSelector Check = "scale-without-selector"
	NotConstant          Check = "not-constant"
	NoUpperLimit         Check = "no-upper-limit"
	FixedValue           Check = "fixed-value"
	LooseDefault         Check = "loose-default"
	BeyondBudget         Check = "beyond-budget"
)

// Fields and values.
const (
	UnknownField        Check = "unknown-field"
	UnknownType         Check = "unknown-type"
	UncheckedType       Check = "unchecked-type"
	WrongType           Check = "wrong-type"
	UnsupportedValue    Check = "unsupported-value"
	MissingField        Check = "missing-field"
	OutOfRange          Check = "out-of-range"
	InvalidQuantity     Check = "invalid-quantity"
	InvalidPercentage   Check = "invalid-percentage"
	InvalidBase64       Check = "invalid-base64"
	DuplicateItem       Check = "duplicate-item"
	MutuallyExclusive   Check = "mutually-exclusive"
	MinimumAboveMaximum Check = "minimum-above-maximum"
	UnknownPort         Check = "unknown-port"
	UnknownVolume       Check = "unknown-volume"
	SelectorMismatch    Check = "selector-mismatch"
	SelectorWithoutPods Check = "selector-without-pods"
	RemovedVolume       Check = "removed-volume"
	InvalidValue        Check = "invalid-value"
)

// Expressions.
const (
	UnknownChild         Check = "unknown-child"
	NotAStruct           Check = "not-a-struct"
	NotAList             Check = "not-a-list"
	ShortList            Check = "short-list"
	WrongOperand         Check = "wrong-operand"
	ConditionNotBool     Check = "condition-not-bool"
	ImpossibleComparison Check = "impossible-comparison"
	DivisionByZero       Check = "division-by-zero"
	NotInterpolated      Check = "not-interpolated"
)

// Children, sets and rights.
const (
	DuplicateName      Check = "duplicate-name"
	SharedName         Check = "shared-name"
	LiteralName        Check = "literal-name"
	UndeclaredType     Check = "undeclared-type"
	IfDeletesChild     Check = "if-deletes-child"
	ReusedName         Check = "reused-name"
	OptionalField      Check = "optional-field"
	WaitingCycle       Check = "waiting-cycle"
	ReadsReplaced      Check = "reads-replaced"
	LostStatus         Check = "lost-status"
	EndlessChildren    Check = "endless-children"
	SelectsOwnChildren Check = "selects-own-children"
	ConditionalSet     Check = "conditional-set"
	InvalidSet         Check = "invalid-set"
	IndexOutsideSet    Check = "index-outside-set"
	IndexInIdentity    Check = "index-in-identity"
	UnneededNamespace  Check = "unneeded-namespace"
	MissingNamespace   Check = "missing-namespace"
	WrongScope         Check = "wrong-scope"
	NeedsRights        Check = "needs-rights"
	ExposedSecret      Check = "exposed-secret"
)

// Phases and time.
const (
	UnknownPhase       Check = "unknown-phase"
	UnreachablePhase   Check = "unreachable-phase"
	TerminalPhase      Check = "terminal-phase"
	NoWayOut           Check = "no-way-out"
	NeverTaken         Check = "never-taken"
	InvalidTime        Check = "invalid-time"
	DeadlineWithPhases Check = "deadline-with-phases"
	EndlessDeletion    Check = "endless-deletion"
)

// Reads, decorators and injection.
const (
	NameOrSelector       Check = "name-or-selector"
	UnstableRead         Check = "unstable-read"
	DecoratorRead        Check = "decorator-read"
	InjectReadsChildren  Check = "inject-reads-children"
	ConditionalInjection Check = "conditional-injection"
	ClosedObserved       Check = "closed-observed"
	DecoratorField       Check = "decorator-field"
)

// Versions.
const (
	LostField        Check = "lost-field"
	TypeDiffers      Check = "type-differs"
	StatusDiffers    Check = "status-differs"
	CopiedField      Check = "copied-field"
	ReadsResult      Check = "reads-result"
	FailedConversion Check = "failed-conversion"
	LossyConversion  Check = "lossy-conversion"
	NarrowVersion    Check = "narrow-version"
	UnneededWarning  Check = "unneeded-warning"
)

// Objects.
const (
	UnreadableFile  Check = "unreadable-file"
	InvalidManifest Check = "invalid-manifest"
	UnknownKind     Check = "unknown-kind"
	NothingChecked  Check = "nothing-checked"
	StalledObject   Check = "stalled-object"
	NeverReady      Check = "never-ready"
	UnreachedPhase  Check = "unreached-phase"
	BlockedDeletion Check = "blocked-deletion"
)
