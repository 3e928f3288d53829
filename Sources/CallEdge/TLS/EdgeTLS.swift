internal import Synchronization

/// The TLS of an edge's devices' port: a certificate that may be replaced while connections go on with the one
/// that they began with.
public final class EdgeTLS: Sendable {
  public let certificateFile: String
  public let keyFile: String
  private let state: Mutex<State>

  private struct State {
    var certificate: EdgeCertificate
    var refused: UInt64 = 0
  }

  public init(certificateFile: String, keyFile: String) throws(EdgeCertificateError) {
    self.certificateFile = certificateFile
    self.keyFile = keyFile
    let certificate = try EdgeCertificate(certificateFile: certificateFile, keyFile: keyFile)
    state = Mutex(State(certificate: certificate))
  }

  public var certificate: EdgeCertificate { state.withLock { $0.certificate } }

  /// How often files that had changed were not good.
  public var refused: UInt64 { state.withLock { $0.refused } }

  /// Reads the files again; new connections see what they hold. Not for event loops: it takes a while.
  /// - Throws: why not. What was there before stays.
  public func reload() throws(EdgeCertificateError) {
    do {
      let new = try EdgeCertificate(certificateFile: certificateFile, keyFile: keyFile)
      state.withLock { $0.certificate = new }
    } catch {
      state.withLock { $0.refused += 1 }
      throw error
    }
  }
}
