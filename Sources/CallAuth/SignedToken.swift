internal import CallTelemetry
internal import FoundationEssentials

/// A decoded token; nothing of it is verified.
///
/// Not decoded with JWTKit 5, which decodes all members of a header and traps on a number that no `Int` can hold: one
/// request could end a node. Other members of the header are ignored.
struct SignedToken {
  struct Header: Decodable {
    let alg: String
    let kid: String?
    /// Whether it has `crit`: extensions that must be understood (RFC 7515, 4.1.11).
    let isCritical: Bool

    private enum Keys: String, CodingKey { case alg, kid, crit }

    init(from decoder: any Decoder) throws {
      let members = try decoder.container(keyedBy: Keys.self)
      alg = try members.decode(String.self, forKey: .alg)
      kid = try members.decodeIfPresent(String.self, forKey: .kid)
      isCritical = members.contains(.crit)
    }
  }

  /// The claims. `exp` is whole seconds when we write it; others may write fractions.
  struct Payload: Decodable {
    var app: String
    /// nil: the token is no user's.
    var sub: String?
    var exp: Double
    var nbf: Double?
    var iat: Double?
    var device: String?
    var name: Name?
    var server: Flag?

    /// OpenID Connect's claim. One that is no text is as good as none: an app may have used the name for itself.
    struct Name: Decodable {
      let text: String
      init(from decoder: any Decoder) {
        text = (try? decoder.singleValueContainer().decode(String.self)) ?? ""
      }
    }

    /// Anything but `true` is as good as none: an app may have used the name for itself.
    struct Flag: Decodable {
      let isSet: Bool
      init(from decoder: any Decoder) {
        isSet = (try? decoder.singleValueContainer().decode(Bool.self)) ?? false
      }
    }

    /// Whether it is of an app's server. A token with a user or a device never is.
    var isServers: Bool { sub == nil && device == nil && server?.isSet == true }

    /// nil if the number is not a time.
    var expirySeconds: Int64? {
      exp.isFinite && exp > 0 && exp < 9_007_199_254_740_992 ? Int64(exp) : nil
    }

    /// nil if the token has no `iat`.
    var issuedSeconds: Int64? {
      iat.map { Int64(min(max(0, $0), 9_007_199_254_740_991)) }
    }
  }

  let header: Header
  let payload: Payload
  /// The signed text: header and payload, as received.
  let text: ArraySlice<UInt8>
  let signature: [UInt8]

  /// - Throws: unless the token has three parts, the first two of which are such JSON.
  init(_ token: [UInt8]) throws(TokenFault) {
    let parts = token.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    guard parts.count == 3, let headerBytes = base64URLBytes(parts[0]),
      let payloadBytes = base64URLBytes(parts[1]), let signature = base64URLBytes(parts[2])
    else { throw TokenFault(.form, "it is not three parts in base64url, with dots between them") }
    guard let header = try? BoundedJSON.read(Header.self, headerBytes) else {
      throw TokenFault(.header, "the header is no JSON object with alg, and kid as text if at all")
    }
    let payload: Payload
    do { payload = try BoundedJSON.read(Payload.self, payloadBytes) } catch {
      throw TokenFault(error)
    }
    self.header = header
    self.payload = payload
    self.signature = signature
    text = token[..<parts[1].endIndex]
  }
}
