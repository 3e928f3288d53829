internal import NIOHTTP1

/// The origins whose pages may use the edge (CORS): browsers keep a page from reading answers of
/// another origin, and from sending requests with an Authorization header, unless the server allows
/// it by name.
package struct AllowedOrigins: Sendable {
  private let origins: Set<String>
  private let allowsAll: Bool

  /// For how long a browser may keep the answer to a preflight, in seconds.
  static let preflightKeptSeconds = 600

  /// - Parameter list: as `EdgeConfiguration.allowedOrigins`.
  package init(_ list: [String]) {
    allowsAll = list.contains("*")
    origins = Set(list.map { $0.lowercased() })
  }

  /// Nothing was configured.
  package var isEmpty: Bool { origins.isEmpty }

  package func allows(_ origin: String) -> Bool {
    allowsAll || origins.contains(origin.lowercased())
  }
}

extension AllowedOrigins {
  /// What an answer says to the browser whose page sent the request, on errors as well: otherwise the
  /// page learns nothing of them. Answers differ by origin, which caches must know.
  func headers(for origin: String?) -> [(String, String)] {
    if isEmpty { return [] }
    guard let origin, allows(origin) else { return [("vary", "Origin")] }
    return [
      ("vary", "Origin"), ("access-control-allow-origin", origin),
      ("access-control-expose-headers", "Retry-After"),
    ]
  }

  /// Whether the request asks what a page may send, before it sends it.
  func isPreflight(_ head: HTTPRequestHead) -> Bool {
    !isEmpty && head.method == .OPTIONS && head.headers.contains(name: "origin")
      && head.headers.contains(name: "access-control-request-method")
  }

  /// The answer to a preflight, without what `headers(for:)` adds.
  func preflight(_ head: HTTPRequestHead, path: Substring) -> HTTPAnswer {
    guard let origin = head.headers.first(name: "origin"), allows(origin) else {
      return .error(.originNotAllowed)
    }
    let asked = head.headers.first(name: "access-control-request-method") ?? ""
    let method: String
    do {
      let route = try HTTPRoute.find(method: asked, path: path)
      guard route.isForDevices else { return HTTPAnswer(.nothingThere) }
      method = asked
    } catch .method(let allowed) {
      // The browser compares.
      method = allowed
    } catch .invalid {
      // The request itself is answered with the error.
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
