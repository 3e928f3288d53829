internal import CallEdge
internal import CallTelemetry
internal import Logging
internal import ServiceLifecycle

/// Shows new connections a renewed certificate. Files that are wrong change nothing.
struct CertificateReload: Service {
  var tls: EdgeTLS
  var logger: Logger

  func run() async throws {
    // The files may have changed while the node waited for the cluster.
    reload("start")
    try await FileReload(files: [tls.certificateFile, tls.keyFile], reload: reload).run()
  }

  private func reload(_ why: String) {
    do {
      try tls.reload()
      logger.notice("the certificate was read again", metadata: .keys([.reason: "\(why)"]))
    } catch {
      logger.error(
        "The certificate is not usable; the former one stays.",
        metadata: .keys([.reason: "\(why)", .error: "\(error)"]))
    }
  }
}
