internal import Crypto
internal import Foundation
package import NIOSSL

/// A certificate authority for one test, with a temporary folder for its certificates. The folder is removed with this
/// object. So no key is in a repository or expires there.
package final class LoopbackAuthority: Sendable {
  /// A certificate and its private key, in PEM.
  package struct Identity: Sendable {
    package var certificate: String
    package var key: String

    package init(certificate: String, key: String) {
      self.certificate = certificate
      self.key = key
    }
  }

  /// The folder.
  package let path: String
  /// The authority's certificate in PEM, as a file in the folder.
  package var caFile: String { path + "/ca.pem" }
  /// The authority's certificate in PEM.
  package let certificate: String
  private let issuer = P256.Signing.PrivateKey()
  private let identity: Identity
  private static let name = "loopback authority"

  /// - Parameter names: host names of the default server certificate, which is also for 127.0.0.1.
  /// - Throws: the error of signing or of the file system.
  package init(names: [String] = ["localhost"]) throws {
    path = NSTemporaryDirectory() + "/callmesh-authority-\(UUID().uuidString)"
    certificate = try TestCertificate(
      subject: Self.name, key: issuer.publicKey, seconds: 86_400 * 365
    ).signed(name: Self.name, by: issuer)
    identity = try Self.issue(names, ["127.0.0.1"], seconds: 86_400, by: issuer)
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    try certificate.write(toFile: caFile, atomically: true, encoding: .utf8)
  }

  deinit { try? FileManager.default.removeItem(atPath: path) }

  /// Signs a certificate for servers and clients.
  /// - Parameters:
  ///   - names: its host names.
  ///   - addresses: its IPv4 addresses, and `::1`.
  ///   - seconds: the time from now until it expires; negative: it has expired.
  /// - Throws: the error of signing.
  package func issue(
    names: [String] = ["localhost"], addresses: [String] = ["127.0.0.1"],
    seconds: Double = 86_400
  ) throws -> Identity {
    try Self.issue(names, addresses, seconds: seconds, by: issuer)
  }

  /// Signs a certificate and writes it to `NAME.crt` and its key to `NAME.key` in the folder.
  /// - Parameters:
  ///   - file: NAME.
  ///   - hosts: its host names; NAME if there are neither hosts nor addresses.
  ///   - addresses: its IPv4 addresses.
  /// - Throws: the error of signing or of the file system.
  /// - Returns: the paths of the two files.
  package func issue(
    _ file: String, hosts: [String] = [], addresses: [String] = []
  ) throws -> (certificate: String, key: String) {
    let names = hosts.isEmpty && addresses.isEmpty ? [file] : hosts
    let identity = try issue(names: names, addresses: addresses)
    let paths = (certificate: "\(path)/\(file).crt", key: "\(path)/\(file).key")
    try identity.certificate.write(toFile: paths.certificate, atomically: true, encoding: .utf8)
    try identity.key.write(toFile: paths.key, atomically: true, encoding: .utf8)
    return paths
  }

  private static func issue(
    _ names: [String], _ addresses: [String], seconds: Double, by issuer: P256.Signing.PrivateKey
  ) throws -> Identity {
    let key = P256.Signing.PrivateKey()
    let certificate = try TestCertificate(
      subject: "loopback", key: key.publicKey, seconds: seconds,
      alternatives: .init(names: names, addresses: addresses)
    ).signed(name: name, by: issuer)
    return Identity(certificate: certificate, key: key.pemRepresentation)
  }

  /// A server's TLS context.
  /// - Parameters:
  ///   - protocols: what it offers by ALPN, in order of preference.
  ///   - identity: its certificate; nil: the default one.
  /// - Throws: the error of NIOSSL.
  package func serverContext(
    protocols: [String], identity other: Identity? = nil
  ) throws -> NIOSSLContext {
    let identity = other ?? identity
    var configuration = TLSConfiguration.makeServerConfiguration(
      certificateChain: [
        .certificate(try NIOSSLCertificate(bytes: Array(identity.certificate.utf8), format: .pem))
      ],
      privateKey: .privateKey(
        try NIOSSLPrivateKey(bytes: Array(identity.key.utf8), format: .pem)))
    configuration.minimumTLSVersion = .tlsv12
    configuration.applicationProtocols = protocols
    return try NIOSSLContext(configuration: configuration)
  }
}
