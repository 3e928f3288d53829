import CallTelemetry

/// The part of a request that decides its answer.
package struct WebRequest: Sendable {
  package var method: String
  /// Path and query, as in the request line.
  package var target: String
  package var host: String?

  package init(method: String = "GET", target: String, host: String? = "localhost") {
    self.method = method
    self.target = target
    self.host = host
  }
}

package struct WebAnswer: Sendable, Equatable {
  package var status: Int
  package var contentType: String
  package var body: [UInt8]
  /// Where a redirection leads.
  package var location: String?

  static func text(_ status: Int, _ text: String) -> WebAnswer {
    WebAnswer(
      status: status, contentType: "text/plain; charset=utf-8", body: Array((text + "\n").utf8))
  }

  static func json(_ value: some Encodable) -> WebAnswer {
    guard let json = try? value.sortedJSON() else { return .text(500, "No JSON.") }
    return WebAnswer(status: 200, contentType: "application/json", body: Array(json.utf8))
  }
}

/// All answers of the server: the page's files, and what it asks for.
package struct WebSite: Sendable {
  package let files: PageFiles
  let reach: Reach
  /// nil until the cluster is ready.
  let development: @Sendable () -> Development?

  package init(
    files: PageFiles, reach: Reach = .loopback, development: @escaping @Sendable () -> Development?
  ) {
    (self.files, self.reach) = (files, reach)
    self.development = development
  }

  /// Reads a file, so it may block.
  package func answer(_ request: WebRequest) -> WebAnswer {
    guard request.method == "GET" || request.method == "HEAD" else {
      return .text(405, "Only GET and HEAD.")
    }
    // A page of a foreign site whose name leads here would get tokens otherwise.
    guard let host = reach.host(of: request.host) else {
      let names = reach.hosts.map(reach.site)
      return .text(
        421, "Open \(names.joined(separator: " or ")) with the port of this server.")
    }
    let parts = request.target.split(
      separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
    let path = String(parts[0])
    let query = parts.count > 1 ? String(parts[1]) : ""
    switch path {
    case "/", "/phone":
      // Only what a browser sends as a query: anything else could end the header.
      let isPlain = query.utf8.allSatisfy { (0x21...0x7E).contains($0) }
      let location = query.isEmpty || !isPlain ? "/phone/" : "/phone/?\(query)"
      return WebAnswer(status: 302, contentType: "text/plain", body: [], location: location)
    case "/development/settings":
      return development()?.settings(from: host) ?? Self.notReady
    case "/development/token":
      return development()?.token(of: PercentEncoding.query(query)["user"]) ?? Self.notReady
    default:
      return file(path)
    }
  }

  private static let notReady = WebAnswer.text(503, "The cluster is starting. Try again.")

  private func file(_ path: String) -> WebAnswer {
    do throws(PageFiles.Refusal) {
      let file = try files.read(path)
      return WebAnswer(status: 200, contentType: file.contentType, body: file.bytes)
    } catch {
      return switch error {
      case .notFound: .text(404, "There is nothing here. The phone is at /phone/.")
      case .tooLarge: .text(403, "The file is too large to be served.")
      }
    }
  }
}
