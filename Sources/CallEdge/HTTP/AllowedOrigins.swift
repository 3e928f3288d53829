internal import CallCore
internal import NIOHTTP1

/// The origins whose pages may use the edge (CORS). A browser keeps a page from reading the answers of another
/// origin, and from sending it requests with an Authorization header, unless that server allows the page's
/// origin.
package struct AllowedOrigins: Sendable {
  private let origins: Set<String>
  private let allowsAll: Bool

  /// How long a browser may cache the answer to a preflight, in seconds.
  static let preflightKeptSeconds = 600

  /// - Parameter list: as `EdgeConfiguration.allowedOrigins`.
  package init(_ list: [String]) {
    allowsAll = list.contains("*")
    origins = Set(list.map { Self.serialized($0) ?? $0 })
  }

  /// An origin as browsers write it (RFC 6454, 6.2): in lower case, and without the port that the scheme has anyway. Apps
  /// in web views and browser extensions have schemes of their own.
  ///
  /// nil for what no browser writes: a path, a user, no host, a file (which is `null`).
  package static func serialized(_ text: String) -> String? {
    let text = text.lowercased()
    guard let colon = text.firstRange(of: "://") else { return nil }
    let scheme = text[..<colon.lowerBound]
    var host = text[colon.upperBound...]
    guard scheme.utf8.first?.isASCIILetter == true, !Self.schemesOfNoPage.contains(scheme),
      scheme.utf8.allSatisfy({ $0.isASCIILetter || $0.isASCIIDigit || "+-.".utf8.contains($0) })
    else { return nil }
    var port = ""
    if let last = host.lastIndex(of: ":"), !host.hasSuffix("]") {
      let digits = host[host.index(after: last)...]
      guard digits.utf8.allSatisfy(\.isASCIIDigit), let number = UInt16(digits), number > 0
      else { return nil }
      host = host[..<last]
      let standard: UInt16? = scheme == "https" ? 443 : scheme == "http" ? 80 : nil
      if number != standard { port = ":\(number)" }
    }
    return isHost(host) ? "\(scheme)://\(host)\(port)" : nil
  }

  /// Browsers send `null` for pages from files, and load no page by the schemes of WebSockets.
  private static let schemesOfNoPage: Set<Substring> = ["file", "ws", "wss"]

  /// A name, in its ASCII form, or an address.
  private static func isHost(_ host: Substring) -> Bool {
    guard (1...253).contains(host.utf8.count) else { return false }
    if host.hasPrefix("["), host.hasSuffix("]") {
      let address = host.dropFirst().dropLast().utf8
      return !address.isEmpty
        && address.allSatisfy { $0.isASCIIDigit || (0x61...0x66).contains($0) || $0 == 0x3a }
    }
    return host.split(separator: ".", omittingEmptySubsequences: false).allSatisfy { label in
      !label.isEmpty
        && label.utf8.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || "-_".utf8.contains($0) }
    }
  }

  /// No origin is configured.
  package var isEmpty: Bool { origins.isEmpty }

  package func allows(_ origin: String) -> Bool {
    allowsAll || origins.contains(Self.serialized(origin) ?? origin)
  }
}

extension AllowedOrigins {
  /// The headers of an answer to a page's request. Errors have them as well, or the page could not read them.
  /// Answers differ by origin, as `Vary` tells caches.
  func headers(for origin: String?) -> [(String, String)] {
    if isEmpty { return [] }
    guard let origin, allows(origin) else { return [("vary", "Origin")] }
    return [
      ("vary", "Origin"), ("access-control-allow-origin", origin),
      ("access-control-expose-headers", "Retry-After"),
    ]
  }

  /// Whether the request is a browser's preflight.
  func isPreflight(_ head: HTTPRequestHead) -> Bool {
    !isEmpty && head.method == .OPTIONS && head.headers.contains(name: "origin")
      && head.headers.contains(name: "access-control-request-method")
  }

  /// The answer to a preflight, without the headers that `headers(for:)` adds.
  func preflight(_ head: HTTPRequestHead, path: Substring) -> HTTPAnswer {
    guard let origin = head.headers.first(name: "origin"), allows(origin) else {
      return HTTPAnswer(.originNotAllowed)
    }
    let asked = head.headers.first(name: "access-control-request-method") ?? ""
    let method: String
    do {
      let route = try HTTPRoute.find(method: asked, path: path)
      guard route.isForDevices else { return HTTPAnswer(.notFound) }
      method = asked
    } catch .method(let allowed) {
      // The browser compares it with the request's.
      method = allowed
    } catch .invalid {
      // The error answers the request itself.
      method = asked
    } catch {
      return HTTPAnswer(error)
    }
    return HTTPAnswer(
      status: 204,
      headers: [
        ("access-control-allow-methods", method),
        ("access-control-allow-headers", "Authorization, Content-Type"),
        ("access-control-max-age", "\(Self.preflightKeptSeconds)"),
      ], body: [])
  }
}
