internal import FoundationEssentials
internal import NIOCore
internal import NIOSSL
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

/// The certificate that an edge shows to devices, with its chain and its key.
public struct EdgeCertificate: Sendable {
  /// Shared by all connections. It holds the chain, the key, and the keys of TLS session tickets.
  let context: NIOSSLContext
  /// When the first certificate of the chain expires, in seconds since 1970.
  public let expires: Int64

  /// Reads and checks both files, in PEM; the server's own certificate comes first.
  /// - Throws: why they cannot be used.
  public init(certificateFile: String, keyFile: String) throws(EdgeCertificateError) {
    let chain = try Self.chain(certificateFile)
    let key = try Self.key(keyFile)
    var configuration = TLSConfiguration.makeServerConfiguration(
      certificateChain: chain.map { .certificate($0) }, privateKey: .privateKey(key))
    configuration.minimumTLSVersion = .tlsv12
    configuration.applicationProtocols = ["http/1.1"]
    // How long a peer may take to answer the end of TLS.
    configuration.shutdownTimeout = .seconds(1)
    do {
      context = try NIOSSLContext(configuration: configuration)
    } catch {
      throw EdgeCertificateError(
        .key, keyFile, "it is not the key of the first certificate in \(certificateFile)",
        "Name the key that the certificate was requested with. Where the file has a chain, the server's own "
          + "certificate comes first.")
    }
    expires = chain.map { Int64($0.notValidAfter) }.min() ?? 0
  }

  private static func chain(_ path: String) throws(EdgeCertificateError) -> [NIOSSLCertificate] {
    let bytes = try read(path, .certificate)
    let chain = (try? NIOSSLCertificate.fromPEMBytes(bytes)) ?? []
    guard !chain.isEmpty else {
      throw EdgeCertificateError(
        .certificate, path, "it holds no certificate in PEM",
        "Write the server's certificate into it, and behind it those that lead to the authority.")
    }
    return chain
  }

  private static func key(_ path: String) throws(EdgeCertificateError) -> NIOSSLPrivateKey {
    let bytes = try read(path, .key)
    // A passphrase stored beside the key would protect nothing, so none is supported.
    guard !bytes.contains("ENCRYPTED".utf8) else {
      throw EdgeCertificateError(
        .key, path, "the key is encrypted",
        "Store it in the clear, readable by the edge alone: openssl pkey -in FILE -out FILE")
    }
    do {
      return try NIOSSLPrivateKey(bytes: bytes, format: .pem)
    } catch {
      throw EdgeCertificateError(
        .key, path, "it holds no private key in PEM", "Write the certificate's key into it.")
    }
  }

  private static func read(_ path: String, _ part: EdgeCertificateError.Part)
    throws(EdgeCertificateError) -> [UInt8]
  {
    do {
      return Array(try Data(contentsOf: URL(filePath: path)))
    } catch {
      let reason =
        (error as? CocoaError)?.code == .fileReadNoSuchFile ? "there is none" : "\(error)"
      throw EdgeCertificateError(
        part, path, "the file cannot be read (\(reason))",
        "Give the path of a file that the user of the edge may read.")
    }
  }
}

/// Why a certificate and its key cannot be used.
public struct EdgeCertificateError: Error, Sendable, Equatable, CustomStringConvertible {
  public enum Part: Sendable { case certificate, key }
  public var part: Part
  public var file: String
  public var what: String
  public var remedy: String

  init(_ part: Part, _ file: String, _ what: String, _ remedy: String) {
    self.part = part
    self.file = file
    self.what = what
    self.remedy = remedy
  }

  public var description: String { "\(file): \(what). \(remedy)" }
}
