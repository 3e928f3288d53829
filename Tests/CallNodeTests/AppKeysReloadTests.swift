import CallAuth
import CallBus
import CallNodeKit
import CallTelemetry
import Foundation
import Logging
import ServiceLifecycle
import Testing

/// A file of keys in a folder of its own.
private struct KeysOnDisk {
  let path = FileManager.default.temporaryDirectory.path + "/keys-\(UUID().uuidString).json"

  func write(_ text: String) throws {
    try text.write(toFile: path, atomically: true, encoding: .utf8)
  }
  func remove() { try? FileManager.default.removeItem(atPath: path) }
}

@Suite struct AppKeysReloadTests {
  private let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
  private let now: Int64 = 1_800_000_000

  private func token(_ keys: AppKeys) throws -> String {
    try keys.mintToken(app: "demo", user: "ann", lifetimeSeconds: 60, now: now)
  }

  /// Reads a file of keys again that holds this text.
  private func reload(_ text: String, _ tokens: TokenAuthority) throws -> MetricsRegistry {
    let (disk, metrics) = (KeysOnDisk(), MetricsRegistry())
    defer { disk.remove() }
    try disk.write(text)
    FileReload.appKeys(path: disk.path, tokens: tokens, metrics: metrics, logger: logger)
      .reload("test")
    return metrics
  }

  private func isInForce(_ tokens: TokenAuthority, _ number: UInt32) -> Bool {
    tokens.isInForce(app: "demo", user: "ann", issuedAtSeconds: now, keyNumber: number)
  }

  private func count(_ result: String, _ metrics: MetricsRegistry) -> Bool {
    metrics.render().contains("callmesh_keys_reloads_total{result=\"\(result)\"} 1")
  }

  @Test func newKeysAreInForceAtOnceAndOldOnesGone() throws {
    let (old, _) = AppKeys.generateDevelopment(app: "demo")
    let (new, json) = AppKeys.generateDevelopment(app: "demo")
    let tokens = TokenAuthority(keys: old)
    let oldToken = try token(old)
    let number = try tokens.verify(oldToken, now: now).keyNumber
    #expect(isInForce(tokens, number))
    let before = tokens.generation
    let metrics = try reload(json, tokens)
    #expect(tokens.generation > before && count("taken", metrics))
    #expect(throws: AuthFailure.notAccepted) { try tokens.verify(oldToken, now: now) }
    #expect(try tokens.verify(try token(new), now: now).user == "ann")
    // Both keys have the same app and kid: their numbers tell them apart.
    #expect(!isInForce(tokens, number))
  }

  @Test(arguments: ["", "{", #"{"apps":[]}"#, #"{"apps":[{"app":"demo","keys":[]}]}"#])
  func aFileThatIsWrongChangesNothing(text: String) throws {
    let (keys, _) = AppKeys.generateDevelopment(app: "demo")
    let tokens = TokenAuthority(keys: keys)
    let before = tokens.generation
    let metrics = try reload(text, tokens)
    #expect(tokens.generation == before && count("refused", metrics))
    #expect(try tokens.verify(try token(keys), now: now).user == "ann")
  }

  @Test func aChangedFileIsNoticedWhileTheNodeRuns() async throws {
    let disk = KeysOnDisk()
    defer { disk.remove() }
    try disk.write("1")
    let reloads = Inbox<Void>(capacity: 10)
    let services = ServiceGroup(
      services: [
        FileReload(
          files: [disk.path], interval: .milliseconds(10),
          success: "read", failure: "not read", logger: logger
        ) {
          reloads.offer(())
          return []
        }
      ], logger: logger)
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { try await services.run() }
      // Until it is noticed: the first look may come after the first of these.
      group.addTask {
        var text = "2"
        while !Task.isCancelled {
          try disk.write(text)
          text += "2"
          try await Task.sleep(for: .milliseconds(20))
        }
      }
      #expect(await !reloads.next(until: .now + .seconds(60)).isEmpty)
      await services.triggerGracefulShutdown()
      group.cancelAll()
      do { try await group.waitForAll() } catch is CancellationError {}
    }
  }
}
