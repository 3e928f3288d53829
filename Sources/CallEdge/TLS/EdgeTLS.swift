internal import Synchronization

/// The TLS of the devices' port. The certificate may be replaced; open connections keep the one that they began with.
public final class EdgeTLS: Sendable {
  public let certificateFile: String
  public let keyFile: String
  private let state: Mutex<State>

  private struct State {
    var certificate: EdgeCertificate
    var refused: UInt64 = 0
  }

  /// Reads and checks both files.
  /// - Throws: why they cannot be used.
  public init(certificateFile: String, keyFile: String) throws(EdgeCertificateError) {
    self.certificateFile = certificateFile
    self.keyFile = keyFile
    let certificate = try EdgeCertificate(certificateFile: certificateFile, keyFile: keyFile)
    state = Mutex(State(certificate: certificate))
  }

  public var certificate: EdgeCertificate { state.withLock { $0.certificate } }

  /// How often changed files could not be used.
  public var refused: UInt64 { state.withLock { $0.refused } }

  /// Reads the files again, for new connections. Not to be called on an event loop, which it would block.
  /// - Throws: why they cannot be used. The former certificate then stays.
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
