internal import CallBus
internal import CallCore
package import CallTelemetry
internal import FoundationEssentials
internal import Logging

/// Lists of users and of calls.
extension AdminResponder {
  /// NATS takes messages of 1 MB. An answer of 1,000 entries with the longest names is longer.
  static let answerBytesMax = 900_000

  /// A question that cannot be read is answered like one without a filter.
  func listQuery(_ bytes: [UInt8]) -> ListQuery {
    BoundedJSON.decode(ListQuery.self, bytes) ?? ListQuery()
  }

  func users(_ query: ListQuery) async -> ListReport<ListedUser> {
    var list = Shortlist<UserSummary>(countMax: query.entriesMax)
    let filter = ListFilter(app: query.app, user: query.user)
    let shards = await eachShard { $0.add(usersMatching: filter, to: &list) }
    return report(list.items.map(ListedUser.init), leftOut: list.leftOut, shards)
  }

  func calls(_ query: ListQuery) async -> ListReport<ListedCall> {
    var list = Shortlist<CallSummary>(countMax: query.entriesMax)
    let filter = ListFilter(app: query.app, user: query.user, isLive: query.live ?? false)
    let shards = await eachShard { $0.add(callsMatching: filter, to: &list) }
    let entries = list.items.map { call in
      ListedCall(
        call,
        shard: ShardHash.shard(
          of: UserKey(app: call.app, user: call.state.callee), count: configuration.shardCount),
        owner: configuration.nodeID)
    }
    return report(entries, leftOut: list.leftOut, shards)
  }

  /// Two calls may have been placed in one millisecond, which is as exact as the report is: it has its own order.
  private func report<Entry>(_ entries: [Entry], leftOut: Int, _ shards: [Int])
    -> ListReport<Entry>
  {
    ListReport(
      node: configuration.nodeID, entries: entries.sorted { $0.precedes($1) }, leftOut: leftOut,
      shards: shards,
      shardCount: configuration.shardCount)
  }

  /// Calls `body` with every shard that this node serves. A worker only hands out a copy of its tables;
  /// `body` runs off its thread. One shard at a time, so that never more than one shard's tables have
  /// two owners.
  /// - Returns: the shards, in order.
  func eachShard(_ body: (ShardDirectory) -> Void) async -> [Int] {
    var shards: [Int] = []
    for worker in manager.workers {
      for shard in await worker.heldShards {
        guard let directory = await worker.directory(of: shard) else { continue }
        body(directory)
        shards.append(shard)
      }
    }
    return shards.sorted()
  }

  func send<Entry>(list: ListReport<Entry>, to subject: String) {
    do {
      bus.publish(subject, try list.bounded(bytesMax: Self.answerBytesMax).bytes)
    } catch {
      logger.error("An answer could not be written.", metadata: .keys([.error: "\(error)"]))
    }
  }
}

extension ListReport {
  /// Leaves entries out, the last ones first, until the JSON of the report has at most so many bytes.
  package func bounded(bytesMax: Int) throws -> (bytes: [UInt8], report: ListReport) {
    var report = self
    var bytes = try JSONEncoder().encode(report)
    while bytes.count > bytesMax, !report.entries.isEmpty {
      let kept = report.entries.count * bytesMax / bytes.count
      report.leftOut += report.entries.count - kept
      report.entries.removeLast(report.entries.count - kept)
      bytes = try JSONEncoder().encode(report)
    }
    return (Array(bytes), report)
  }
}
