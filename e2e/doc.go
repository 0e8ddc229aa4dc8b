// Package e2e tests the program as a process on a real API server. It knows the program's command
// line, its log, its endpoints and the objects in the cluster.
//
// The tests need a control plane, which `make test` starts. To run one of them:
//
//	make devcluster
//	.devcluster/bin/devcluster -- go test ./e2e -run TestHealth
//	.devcluster/bin/devcluster -- go test ./e2e -run TestScripts/status
//
// With -keep before the --, the logs of the control plane are kept. No process runs the containers
// of Pods: kwok stands in for the kubelet. TestNodeScripts needs a real node (`make test-node`).
//
// Each test has a namespace of its own, and most tests run in parallel, six at a time. Without -run, only
// the tests in the list of promises below run, which is what make test does; with -rest, all others do (make
// test-e2e). An operator (a process of the test binary that acts as fescue, see TestMain) has the rights that
// `fescue manifests` prints.
// It reaches the API server through a proxy that counts requests, calls hooks and can be cut. Tests
// wait for /readyz or for objects, and read the log only to test it.
//
// The harness:
//
//   - harness_test.go: cluster (a namespace with clients) and process (a running operator)
//   - objects_test.go: creates, reads and awaits objects
//   - proxy_test.go: the proxy in front of the API server
//   - rights_harness_test.go: installs rights, and records which rights are used
//   - webhooks_harness_test.go: flags and configurations of webhooks
//
// The tests:
//
//   - main_test.go, node_test.go: the scripts in testdata/scripts, install, helm and node
//   - tutorial_test.go: the pages of docs/tutorial
//   - at_test.go: phases: timers, crashes, restarts and outages
//   - children_test.go: kinds without phases, and sets
//   - faults_test.go, faults_operators_test.go, faults_observer_test.go: objects of many kinds under random faults
//   - damage_test.go: damage to children after the steps of all scenarios
//   - sensitive_test.go: messages about what must not be shown
//   - scenarios_test.go: the scenarios of the shipped kinds, which fescue test runs in memory
//   - examples_test.go: those of the examples
//   - entries_test.go: phases that are entered again
//   - restore_test.go: objects that are restored from a backup
//   - kinds_test.go: faulty kinds, upgrades of CRDs, kinds without their CRD or rights
//   - changes_test.go: kinds that change while objects live
//   - builds_test.go: another build of Fescue, and this one, in turns
//   - unloaded_test.go: CRDs of kinds that are gone
//   - disputed_test.go: kinds about which Fescue and CUE disagree
//   - kstatus_test.go: the status as Flux and kpt read it
//   - endless_test.go: kinds and decorators that lead back to themselves
//   - invalid_test.go: objects that became invalid with their kind
//   - injectedpods_test.go: the report of Pods with an outdated or missing sidecar
//   - webhooks_test.go, webhooks_pods_test.go: validation, defaults and injection
//   - webhooks_service_test.go, webhooks_missing_test.go: webhooks behind a Service, and without
//     a CRD or a right
//   - leader_test.go, shards_test.go: several processes
//   - install_test.go, rights_test.go: the manifests, and their rights
//   - metrics_test.go, metricsauth_test.go: what operators report
//   - apiserver_test.go, childobjects_test.go: the API server judges objects as the compiled schemas do, and
//     children as vet does
//
// Whether the right children exist in the end, whatever others do and whenever operators are killed, is what the
// histories of hack/sim ask, of more kinds than these: here, one test for each promise is left of it.
//
// The promises of the README and docs/, each with the tests that hold it on the API server:
//
//   - what the API server accepts and stores is what fescue vet says: TestAPIServerAgrees, TestAPIServerAgreesOnUpdates
//   - the commands of docs/reference/cli.md, and the manifests of the five source systems: TestScripts
//   - what fescue test reports is what happens on a cluster: TestScenarios
//   - an object passes its phases in time, and not early: TestScheduleDoesNotFireEarly, TestPastScheduleReachesDone
//   - a crash after any write loses nothing and repeats nothing: TestKilledAfterAnyWrite
//   - what is created once is not created again before its phase is entered again: TestDeletedPodStallsItsAt,
//     TestCommandRunsOnce, TestPhaseIsEnteredAgain
//   - an outage of the API server, and a stop, lose nothing: TestAPIServerOutage, TestStopFinishesTheRunningReconcile
//   - an idle operator sends no requests, and an object takes few: TestIdleAtsSendNoRequests,
//     TestIdleSetsSendNoRequests, TestRequestsOfOneAt, TestRequestsOfChildren
//   - a restart writes nothing: TestRestart
//   - an operator starts although requests fail: TestStartWhileRequestsFail
//   - children follow their templates: TestChildrenFollowTheirTemplates, TestWatcherKeepsItsConfigMap,
//     TestRejectedChildrenAreReported, TestReversedChangesGiveTheFirstChild,
//     TestNamesOfChildrenFromTheObject
//   - sets have exactly their members: TestCustomclusterKeepsItsPods, TestOrderedSet
//   - nothing that others made is adopted or deleted: TestUnrelatedPodIsNotAdopted, TestCopiesAreLeftAlone,
//     TestUnmanagedPodsOfASet
//   - who changes a child back is named: TestContestedChildIsCorrectedSlowly
//   - decorators add to existing objects, and clean up: TestDecorator
//   - kinds and decorators that lead back to themselves end: TestKindThatLeadsBackEnds, TestWhatOutlivesItsOwnerEnds,
//     TestDecoratorsThatLeadBackEnd
//   - objects follow what they read, and a user cannot have read what they may not: TestReads,
//     TestReadsOfOthersAreDenied
//   - no message shows a value of a Secret: TestSensitiveValuesAreNotShown
//   - children in other namespaces go with their object, and need their author's rights: TestElsewhereKeepsItsChildren,
//     TestChildrenElsewhereAreDenied
//   - users of a self-service kind need no rights to its children, and get none in namespaces of others:
//     TestSelfService
//   - they are restored, also members of sets, and those that are lost are reported:
//     TestElsewhereRestoresDamagedMembers, TestLostChildrenElsewhereAreReported
//   - nobody else changes where they are recorded: TestRecordsOfChildrenAreTheOperators
//   - an object cleans up before it is deleted: TestOnDeleteByPropagation
//   - damaged children go with their object, and orphaned ones stay: TestLostReferencesOfAnObjectThatIsDeleted,
//     TestOrphansAreNotTakenBack
//   - a namespace or a CRD can be deleted, whatever its objects wait for: TestNamespaceIsDeletedInEveryPhase,
//     TestNamespaceOfChildrenElsewhereIsDeleted, TestCRDIsDeletedWithItsObjects
//   - objects that are restored from a backup run nothing again: TestRestoreRunsNothingAgain,
//     TestRestoreOfChildrenElsewhere
//   - invalid objects are rejected, also without webhooks: TestWebhooks, TestInvalidStoredObjectIsStalled
//   - objects that became invalid can be deleted: TestInvalidObjectsCanGo
//   - Pods get their sidecars: TestPodWebhooks, TestInjectedPodsOfAWatcher
//   - several versions lose nothing, and open nothing: TestVersions, TestForgedConversionIsIgnored
//   - one broken kind or object stops no other: TestFaultyKinds, TestKindStartsOnceItHasItsCRDAndRights,
//     TestEvaluationThatTakesTooLong
//   - objects of kinds that are gone are named: TestObjectsWithoutAKindAreNamed
//   - a kind about which Fescue and CUE disagree does not start: TestDisputedKindsDoNotStart
//   - an older kind stands back, and CRDs are upgraded: TestOlderKindStandsBack, TestLeaderInstalls,
//     TestInstallUpgradesCRDs
//   - several processes share the work: TestLeaderIsKilled, TestShardsAreShared
//   - the printed rights suffice, and all others are missing: all tests, and TestRightToBind
//   - Flux and kpt read the status: TestKstatusOfAt
//   - health and metrics are what docs/reference/metrics.md says, and for authorized clients only: TestHealth,
//     TestMetricsAreDocumented, TestAlertsAndDashboardUseDocumentedMetrics, TestMetricsAuth
//   - each of these has a test: TestPromisesHaveTests
package e2e
