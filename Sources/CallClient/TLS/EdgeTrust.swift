internal import FoundationEssentials
package import NIOCore
internal import NIOSSL

/// The certificate authorities that a client trusts at `wss://` and `https://`. An edge's certificate must
/// be from one of them and name the host that the client connects to. TLS 1.2 and newer.
public struct EdgeTrust: Sendable {
  /// Made once: all connections share it.
  private let context: Result<NIOSSLContext, EdgeTrustError>

  /// The authorities that this machine trusts.
  public static let system = EdgeTrust(
    context: make(.default) { _ in "the authorities of this machine cannot be read" })

  private init(context: Result<NIOSSLContext, EdgeTrustError>) { self.context = context }

  /// The authorities in a file, and no others.
  /// - Parameter caFile: a file with their certificates in PEM.
  /// - Throws: `EdgeTrustError` if the file cannot be read or holds no certificate.
  public init(caFile: String) throws(EdgeTrustError) {
    let bytes: [UInt8]
    do {
      bytes = Array(try Data(contentsOf: URL(filePath: caFile)))
    } catch {
      throw EdgeTrustError("\(caFile): the file cannot be read; give one that this user may read")
    }
    let authorities = (try? NIOSSLCertificate.fromPEMBytes(bytes)) ?? []
    guard !authorities.isEmpty else {
      throw EdgeTrustError(
        "\(caFile): it holds no certificate in PEM; give that of the authority that signed the edges'"
      )
    }
    context = Self.make(.certificates(authorities)) { "\(caFile): it cannot be used (\($0))" }
    _ = try context.get()
  }

  private static func make(
    _ roots: NIOSSLTrustRoots, _ problem: (any Error) -> String
  ) -> Result<NIOSSLContext, EdgeTrustError> {
    var configuration = TLSConfiguration.makeClientConfiguration()
    configuration.minimumTLSVersion = .tlsv12
    configuration.certificateVerification = .fullVerification
    configuration.trustRoots = roots
    configuration.applicationProtocols = ["http/1.1"]
    configuration.shutdownTimeout = .seconds(1)
    do {
      return .success(try NIOSSLContext(configuration: configuration))
    } catch {
      return .failure(EdgeTrustError(problem(error)))
    }
  }

  /// Adds the TLS handler of a connection to an edge at `wss://`. To be called before other handlers are added.
  package func secure(_ channel: any Channel, to edge: EdgeAddress) throws {
    guard edge.isSecure else { return }
    // SNI takes names only; an IP address is compared with those in the certificate.
    let isAddress = (try? SocketAddress(ipAddress: edge.host, port: edge.port)) != nil
    try channel.pipeline.syncOperations.addHandler(
      NIOSSLClientHandler(context: context.get(), serverHostname: isAddress ? nil : edge.host))
  }

  /// Describes an error of TLS; nil for other errors.
  package static func problem(_ error: any Error, with edge: EdgeAddress) -> String? {
    switch error {
    case let error as EdgeTrustError: error.description
    case let error as NIOSSLExtraError:
      error == .failedToValidateHostname
        ? "TLS: the certificate is not for \(edge.host)" : "TLS: \(error)"
    // These are broken sockets, which also occur without TLS.
    case NIOSSLError.uncleanShutdown, NIOSSLError.handshakeFailed(.sslError([.eofDuringHandshake])):
      nil
    case NIOSSLError.handshakeFailed(.sslError(let stack)):
      problem(stack.map { "\($0)" }.joined(separator: ", "))
    case let error as NIOSSLError: "TLS: \(error)"
    case let error as BoringSSLError: "TLS: \(error)"
    default: nil
    }
  }

  private static func problem(_ text: String) -> String {
    if text.contains("CERTIFICATE_VERIFY_FAILED") {
      return "TLS: the certificate is of no authority that is trusted, or not valid now"
    }
    if text.contains("WRONG_VERSION_NUMBER") || text.contains("HTTP_REQUEST") {
      return "TLS: the other side does not speak it"
    }
    return "TLS: \(text)"
  }
}

/// Why a file of certificate authorities cannot be used.
public struct EdgeTrustError: Error, Sendable, Equatable, CustomStringConvertible {
  public var description: String
  init(_ description: String) { self.description = description }
}

extension ChannelHandlerContext {
  /// Closes a connection without TLS's `close_notify`.
  package func closeAbruptly() {
    let below = try? channel.pipeline.syncOperations.context(handlerType: NIOSSLClientHandler.self)
    (below ?? self).close(promise: nil)
  }
}
