import CallClient
import CallCore
import Foundation
import Testing

/// The payloads that docs/device-protocol.md shows are such as we send and read.
@Suite struct DialectDocumentTests {
  static let lines: [Substring] = {
    let folder = URL(filePath: #filePath).deletingLastPathComponent()
    let path = folder.appending(path: "../../docs/device-protocol.md")
    let text = (try? String(contentsOf: path, encoding: .utf8)) ?? ""
    return text.split(separator: "\n", omittingEmptySubsequences: false)
  }()

  @Test func payloadsAreReadAndSent() throws {
    let start = try #require(Self.lines.firstIndex(of: "```json push")) + 1
    let end = try #require(Self.lines[start...].firstIndex(of: "```"))
    let shown = Self.lines[start..<end].map(String.init)
    let news = try shown.map { try PushReader(.callmesh).read(payload($0)) }
    #expect(news.count == 3)
    guard case .invite(let invite) = news[0], case .stop(let stop) = news[1],
      case .missed(let notice) = news[2]
    else {
      Issue.record("other news: \(news)")
      return
    }
    #expect(invite.headers.count == 1 && invite.capability != nil)
    #expect(invite.pushData == #"{"room":7}"#)
    #expect(stop.callKitReason == 4)
    #expect(notice.handle == "ann")

    // The first is, to the letter, what we write.
    let job = pushJob(
      caller: Party(
        user: "ann", device: "ann-phone", deviceName: "Ann's phone", name: "Ann Lee"), video: true,
      headers: [CustomHeader(name: "X-Team", value: "support")], pushData: #"{"room":7}"#)
    #expect(encode(job, capability: "…").text == shown[0])
  }
}
