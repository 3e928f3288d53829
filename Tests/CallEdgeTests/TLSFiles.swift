import CallEdge
import CallTestKit
import Foundation
import NIOCore
import NIOSSL

/// A certificate and its key in files of a test's own, and clients that trust who signed it.
final class TLSFiles: Sendable {
  let authority: LoopbackAuthority
  let folder: String
  var certificateFile: String { folder + "/edge.pem" }
  var keyFile: String { folder + "/edge-key.pem" }

  init() throws {
    authority = try LoopbackAuthority()
    folder = NSTemporaryDirectory() + "/callmesh-tls-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    try renew()
  }

  deinit { try? FileManager.default.removeItem(atPath: folder) }

  /// Writes another certificate into the files.
  func renew(seconds: Double = 86_400) throws {
    let identity = try authority.issue(seconds: seconds)
    try write(identity.certificate, identity.key)
  }

  func write(_ certificate: String, _ key: String) throws {
    try certificate.write(toFile: certificateFile, atomically: true, encoding: .utf8)
    try key.write(toFile: keyFile, atomically: true, encoding: .utf8)
  }

  func edgeTLS() throws -> EdgeTLS {
    try EdgeTLS(certificateFile: certificateFile, keyFile: keyFile)
  }

  /// TLS of a client that connects to 127.0.0.1.
  func client(
    _ change: (inout TLSConfiguration) -> Void = { _ in }
  ) throws -> NIOSSLContext {
    var configuration = TLSConfiguration.makeClientConfiguration()
    configuration.trustRoots = .file(authority.caFile)
    change(&configuration)
    return try NIOSSLContext(configuration: configuration)
  }
}

extension EdgeFixture {
  /// A client that speaks TLS.
  func client(_ context: NIOSSLContext) async throws -> RawClient {
    try await RawClient.connect(port: port) {
      [try NIOSSLClientHandler(context: context, serverHostname: nil)]
    }
  }
}

extension RawClient {
  /// Which certificate the edge showed.
  func serial() async throws -> [UInt8] {
    try await channel.nioSSL_peerCertificate().get()?.serialNumber ?? []
  }
}
