import CallAuth
import FoundationEssentials
import Testing
import WebPhoneKit

/// The files that the server of the web phone gives out, and to whom.
@Suite("Web phone: answers") struct WebSiteTests {
  /// A folder with a page, a file beside the folder, and links. Removed with the value.
  private final class Folder {
    let path: String
    init() throws {
      path = Temporary.path + "/webphone-\(UInt64.random(in: 0 ... .max))"
      let files = FileManager.default
      try files.createDirectory(atPath: path + "/web/phone", withIntermediateDirectories: true)
      let texts = [
        "web/phone/index.html": "<p>Phone", "web/phone/main.js": "1", "web/client.js": "2",
        "web/.hidden": "3", "secret.txt": "4", "web/a b.txt": "5",
      ]
      for (name, text) in texts {
        #expect(files.createFile(atPath: path + "/" + name, contents: Data(text.utf8)))
      }
      try files.createSymbolicLink(
        atPath: path + "/web/out.txt", withDestinationPath: path + "/secret.txt")
      try files.createSymbolicLink(
        atPath: path + "/web/inner.js", withDestinationPath: path + "/web/client.js")
    }
    deinit { try? FileManager.default.removeItem(atPath: path) }
  }

  private enum Temporary {
    static var path: String { ProcessInfo.processInfo.environment["TMPDIR"] ?? "/tmp" }
  }

  private let folder: Folder
  private let site: WebSite
  private static let (keys, _) = AppKeys.generateDevelopment(app: "phone")

  init() throws {
    folder = try Folder()
    let files = try #require(PageFiles(folder: folder.path + "/web"))
    let development = Development(
      edges: ["ws://127.0.0.1:1"],
      contacts: [
        Development.Contact(user: "ann"), Development.Contact(user: "team", members: ["ann"]),
      ], keys: Self.keys, app: "phone", now: { 1_790_000_000 })
    site = WebSite(files: files) { development }
  }

  private func answer(_ target: String, host: String? = "localhost:8090", method: String = "GET")
    -> WebAnswer
  {
    site.answer(WebRequest(method: method, target: target, host: host))
  }

  private func text(_ target: String) -> String {
    String(decoding: answer(target).body, as: UTF8.self)
  }

  @Test("files of the folder") func files() {
    #expect(text("/phone/") == "<p>Phone")
    #expect(answer("/phone/").contentType == "text/html; charset=utf-8")
    #expect(text("/phone/main.js?v=1") == "1")
    #expect(answer("/phone/main.js").contentType.hasPrefix("text/javascript"))
    #expect(text("/client.js") == "2")
    #expect(text("/inner.js") == "2")
    #expect(text("/a%20b.txt") == "5")
  }

  @Test(
    "nothing outside of the folder, and nothing hidden",
    arguments: [
      "/../secret.txt", "/%2e%2e/secret.txt", "/phone/../../secret.txt", "/..%2fsecret.txt",
      "/out.txt", "//etc/passwd", "/.hidden", "/phone/%00", "/phone", "/%", "/%zz", "/%ff",
      "/phone\\main.js", "phone/main.js", "", "/phone/.", "/nothing.js", "/phone//main.js",
    ])
  func outside(target: String) {
    let answer = answer(target)
    if target == "/phone" {
      #expect(answer.location == "/phone/")
    } else {
      #expect(answer.status == 404)
    }
  }

  @Test("with TLS: this machine's own hosts, and the edges by the host that was asked") func tls() {
    let reach = Reach(
      address: "0.0.0.0", hosts: ["192.0.2.5", "phone-1", "localhost"], hasTLS: true)
    let development = Development(
      edges: ["wss://127.0.0.1:4001"], reach: reach, contacts: [], keys: Self.keys, app: "phone",
      now: { 1_790_000_000 })
    let site = WebSite(files: site.files, reach: reach) { development }
    func settings(_ host: String?) -> WebAnswer {
      site.answer(WebRequest(target: "/development/settings", host: host))
    }
    for host in reach.hosts {
      let body = String(decoding: settings("\(host):8090").body, as: UTF8.self)
      #expect(body.contains("\"wss://\(host):4001\""))
    }
    for host in ["evil.example", "192.0.2.6:8090", "127.0.0.1", "[::1]:8090", nil] {
      #expect(settings(host).status == 421)
    }
    #expect(reach.edgeSources == "wss://192.0.2.5:* wss://phone-1:* wss://localhost:*")
    #expect(reach.certified.names == ["phone-1", "localhost"])
    #expect(reach.certified.addresses == ["192.0.2.5"])
    #expect(reach.page("phone-1", port: 1) == "https://phone-1:1")
  }

  @Test("only GET and HEAD") func methods() {
    #expect(answer("/client.js", method: "HEAD").status == 200)
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
      #expect(answer("/development/token?user=ann", method: method).status == 405)
    }
  }

  @Test("the first page keeps who signs in") func redirection() {
    #expect(answer("/?user=ann").location == "/phone/?user=ann")
    #expect(answer("/").location == "/phone/")
    #expect(answer("/?a\r\nb").location == "/phone/")
  }

  @Test("a foreign name that leads to loopback gets nothing")
  func hosts() {
    for host in ["localhost", "LOCALHOST:8090", "127.0.0.1:8090", "[::1]:8090", "[::1]"] {
      #expect(answer("/development/token?user=ann", host: host).status == 200)
    }
    for host in ["evil.example", "localhost.evil.example:8090", "", nil, "10.0.0.1:8090"] {
      #expect(answer("/development/token?user=ann", host: host).status == 421)
      #expect(answer("/client.js", host: host).status == 421)
    }
  }

  @Test("tokens and settings") func development() throws {
    #expect(
      text("/development/settings")
        == #"{"contacts":[{"name":"Ann","user":"ann"},{"members":["ann"],"name":"Team","user":"team"}],"#
        + #""edges":["ws://127.0.0.1:1"]}"#)
    let token = try #require(
      JSONDecoder().decode(
        [String: String].self, from: Data(answer("/development/token?user=bob+b").body))["token"])
    let parts = token.split(separator: ".").map(String.init)
    #expect(parts.count == 3)
    #expect(answer("/development/token").status == 400)
    #expect(answer("/development/token?user=").status == 400)
    #expect(answer("/development/token?user=a%0Ab").status == 400)
  }

  @Test("before the cluster is ready") func starting() throws {
    let files = try #require(PageFiles(folder: folder.path + "/web"))
    let site = WebSite(files: files) { nil }
    #expect(site.answer(WebRequest(target: "/development/settings")).status == 503)
    #expect(site.answer(WebRequest(target: "/client.js")).status == 200)
  }
}
