package serving

import (
	"errors"

	"github.com/spf13/pflag"
)

// Options are the flags about metrics and health.
type Options struct {
	// MetricsAddress and HealthAddress are listened on; an empty one serves nothing.
	MetricsAddress, HealthAddress string
	// Profiling serves /debug/pprof next to the metrics.
	Profiling bool
	// Auth serves metrics over HTTPS, to authorized clients only.
	Auth bool
	// CertDir has the certificate for Auth; without it, the certificate is self-signed.
	CertDir string
}

// AddFlags adds the flags about metrics and health.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.MetricsAddress, "metrics-listen", "",
		"address that serves /metrics, like :8080; none by default")
	flags.StringVar(&o.HealthAddress, "health-listen", "",
		"address that serves /healthz, /readyz and /livez, like :8081; none by default")
	flags.BoolVar(&o.Auth, "metrics-auth", false,
		"serve metrics over HTTPS to authorized clients only: the bearer token must be valid and its user allowed to get the path")
	flags.StringVar(&o.CertDir, "metrics-cert-dir", "",
		"folder with tls.crt and tls.key for --metrics-auth, reloaded when they change; without it the certificate is self-signed")
	flags.BoolVar(&o.Profiling, "profiling", false, "serve /debug/pprof on the address of --metrics-listen")
}

// Complete validates the flags.
func (o *Options) Complete() error {
	switch {
	case o.Profiling && o.MetricsAddress == "":
		return errors.New("--profiling: requires --metrics-listen")
	case o.Auth && o.MetricsAddress == "":
		return errors.New("--metrics-auth: requires --metrics-listen")
	case o.CertDir != "" && !o.Auth:
		return errors.New("--metrics-cert-dir: requires --metrics-auth")
	}
	return nil
}
