package podrules

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// handlers checks the probes and hooks of a container.
func (c *container) handlers() {
	probes := []struct {
		name  string
		probe *corev1.Probe
	}{{"livenessProbe", c.LivenessProbe}, {"readinessProbe", c.ReadinessProbe}, {"startupProbe", c.StartupProbe}}
	for _, p := range probes {
		if p.probe == nil {
			continue
		}
		c.mustRun(c.path.Child(p.name))
		c.probe(p.probe, c.path.Child(p.name), p.name == "readinessProbe")
	}
	if c.Lifecycle != nil {
		c.mustRun(c.path.Child("lifecycle"))
		c.lifecycle(c.Lifecycle, c.path.Child("lifecycle"))
	}
}

// mustRun rejects what containers cannot have that complete before the others start.
func (c *container) mustRun(path *field.Path) {
	if c.completes() {
		c.add(field.Forbidden(path, "may not be set for init containers without restartPolicy=Always"))
	}
}

// probe follows validateProbe and the functions that call it, after SetDefaults_Probe.
func (c *container) probe(p *corev1.Probe, path *field.Path, readiness bool) {
	c.handler(&handler{exec: p.Exec, httpGet: p.HTTPGet, tcpSocket: p.TCPSocket, grpc: p.GRPC}, path)
	for _, number := range []struct {
		name  string
		value int32
	}{
		{"initialDelaySeconds", p.InitialDelaySeconds}, {"timeoutSeconds", p.TimeoutSeconds},
		{"periodSeconds", p.PeriodSeconds},
		{"successThreshold", p.SuccessThreshold}, {"failureThreshold", p.FailureThreshold},
	} {
		if number.value < 0 {
			c.invalid(path.Child(number.name), number.value, "must be greater than or equal to 0")
		}
	}
	if !readiness && p.SuccessThreshold > 1 {
		c.invalid(path.Child("successThreshold"), p.SuccessThreshold, "must be 1")
	}
	switch period := p.TerminationGracePeriodSeconds; {
	case period == nil:
	case readiness:
		c.invalid(path.Child("terminationGracePeriodSeconds"), *period, "must not be set for readinessProbes")
	case *period <= 0:
		c.invalid(path.Child("terminationGracePeriodSeconds"), *period, "must be greater than 0")
	}
}

// lifecycle follows validateLifecycle.
func (c *container) lifecycle(l *corev1.Lifecycle, path *field.Path) {
	if h := l.PostStart; h != nil {
		c.handler(&handler{exec: h.Exec, httpGet: h.HTTPGet, tcpSocket: h.TCPSocket, sleep: h.Sleep},
			path.Child("postStart"))
	}
	if h := l.PreStop; h != nil {
		c.handler(&handler{exec: h.Exec, httpGet: h.HTTPGet, tcpSocket: h.TCPSocket, sleep: h.Sleep},
			path.Child("preStop"))
	}
	if l.StopSignal != nil {
		c.stopSignal(*l.StopSignal, path.Child("stopSignal"))
	}
}

// stopSignal follows validateStopSignal. Where the feature gate is off, the API server drops the
// signal, so one that it does not know is rejected only here.
func (c *container) stopSignal(signal corev1.Signal, path *field.Path) {
	switch c.pod.os() {
	case "":
		if c.pod.whole {
			c.add(field.Forbidden(path, "may not be set for containers with empty `spec.os.name`"))
		}
	case corev1.Windows:
		oneOf(c.collector, path, signal, corev1.SIGKILL, corev1.SIGTERM)
	}
	oneOf(c.collector, path, signal, stopSignals...)
}

var stopSignals = []corev1.Signal{
	corev1.SIGABRT, corev1.SIGALRM, corev1.SIGBUS, corev1.SIGCHLD, corev1.SIGCLD, corev1.SIGCONT, corev1.SIGFPE,
	corev1.SIGHUP, corev1.SIGILL, corev1.SIGINT, corev1.SIGIO, corev1.SIGIOT, corev1.SIGKILL, corev1.SIGPIPE,
	corev1.SIGPOLL, corev1.SIGPROF, corev1.SIGPWR, corev1.SIGQUIT, corev1.SIGSEGV, corev1.SIGSTKFLT, corev1.SIGSTOP,
	corev1.SIGSYS, corev1.SIGTERM, corev1.SIGTRAP, corev1.SIGTSTP, corev1.SIGTTIN, corev1.SIGTTOU, corev1.SIGURG,
	corev1.SIGUSR1, corev1.SIGUSR2, corev1.SIGVTALRM, corev1.SIGWINCH, corev1.SIGXCPU, corev1.SIGXFSZ, corev1.SIGRTMIN,
	corev1.SIGRTMINPLUS1, corev1.SIGRTMINPLUS2, corev1.SIGRTMINPLUS3, corev1.SIGRTMINPLUS4, corev1.SIGRTMINPLUS5,
	corev1.SIGRTMINPLUS6, corev1.SIGRTMINPLUS7, corev1.SIGRTMINPLUS8, corev1.SIGRTMINPLUS9, corev1.SIGRTMINPLUS10,
	corev1.SIGRTMINPLUS11, corev1.SIGRTMINPLUS12, corev1.SIGRTMINPLUS13, corev1.SIGRTMINPLUS14, corev1.SIGRTMINPLUS15,
	corev1.SIGRTMAXMINUS14, corev1.SIGRTMAXMINUS13, corev1.SIGRTMAXMINUS12, corev1.SIGRTMAXMINUS11,
	corev1.SIGRTMAXMINUS10,
	corev1.SIGRTMAXMINUS9, corev1.SIGRTMAXMINUS8, corev1.SIGRTMAXMINUS7, corev1.SIGRTMAXMINUS6, corev1.SIGRTMAXMINUS5,
	corev1.SIGRTMAXMINUS4, corev1.SIGRTMAXMINUS3, corev1.SIGRTMAXMINUS2, corev1.SIGRTMAXMINUS1, corev1.SIGRTMAX,
}

// handler is what probes and hooks have in common.
type handler struct {
	exec      *corev1.ExecAction
	httpGet   *corev1.HTTPGetAction
	tcpSocket *corev1.TCPSocketAction
	grpc      *corev1.GRPCAction
	sleep     *corev1.SleepAction
}

// handler follows validateHandler.
func (c *container) handler(h *handler, path *field.Path) {
	n := 0
	given := func(name string) *field.Path {
		if n++; n > 1 {
			c.add(field.Forbidden(path.Child(name), "may not specify more than 1 handler type"))
		}
		return path.Child(name)
	}
	if h.exec != nil {
		if path := given("exec"); len(h.exec.Command) == 0 {
			c.add(field.Required(path.Child("command"), ""))
		}
	}
	if h.httpGet != nil {
		path := given("httpGet")
		c.port(h.httpGet.Port, path.Child("port"))
		oneOf(c.collector, path.Child("scheme"), h.httpGet.Scheme, "", corev1.URISchemeHTTP, corev1.URISchemeHTTPS)
		for i, header := range h.httpGet.HTTPHeaders {
			c.invalid(path.Child("httpHeaders").Index(i).Child("name"), header.Name,
				validation.IsHTTPHeaderName(header.Name)...)
		}
	}
	if h.tcpSocket != nil {
		c.port(h.tcpSocket.Port, given("tcpSocket").Child("port"))
	}
	if h.grpc != nil {
		c.port(intstr.FromInt32(h.grpc.Port), given("grpc").Child("port"))
	}
	if h.sleep != nil {
		c.sleep(h.sleep, given("sleep"))
	}
	if n == 0 {
		c.add(field.Required(path, "must specify a handler type"))
	}
}

// port follows ValidatePortNumOrName.
func (c *container) port(port intstr.IntOrString, path *field.Path) {
	if port.Type == intstr.Int {
		c.invalid(path, port.IntVal, validation.IsValidPortNum(int(port.IntVal))...)
	} else {
		c.invalid(path, port.StrVal, validation.IsValidPortName(port.StrVal)...)
	}
}

// sleep follows validateSleepAction.
func (c *container) sleep(s *corev1.SleepAction, path *field.Path) {
	limit := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if period := c.pod.Spec.TerminationGracePeriodSeconds; period != nil {
		limit = max(*period, 1) // what is negative becomes 1
	}
	switch {
	case s.Seconds < 0:
		c.invalid(path.Child("seconds"), s.Seconds, "must be greater than or equal to 0")
	case c.pod.whole && s.Seconds > limit:
		c.invalid(path.Child("seconds"), s.Seconds,
			fmt.Sprintf("must not be greater than terminationGracePeriodSeconds (%d)", limit))
	}
}
