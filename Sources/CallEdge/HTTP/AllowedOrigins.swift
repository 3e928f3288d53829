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
    origins = Set(list.map { $0.lowercased() })
  }

  /// No origin is configured.
  package var isEmpty: Bool { origins.isEmpty }

  package func allows(_ origin: String) -> Bool {
    allowsAll || origins.contains(origin.lowercased())
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
