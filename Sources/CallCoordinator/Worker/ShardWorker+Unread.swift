internal import CallBus
internal import CallCore
internal import CallTelemetry

/// The number of unread missed calls in pushes of apps with histories. A push waits for it for a moment only, and only
/// pushes that have it wait.
extension ShardWorker {
  /// - Returns: whether the push waits for its number.
  func awaitUnread(_ job: PushJob, _ shard: HeldShard, now: Timestamp) -> Bool {
    guard let question = shard.machine.unreadQuestion(of: job) else { return false }
    let push = UnreadReads.Push(term: shard.term, job: job, missed: question.missed)
    if unread.add(push, of: question.user, now: now) { return true }
    metrics.pushesUncounted.increment()
    return false
  }

  /// At the end of a turn, so that one read serves all pushes of a user that the turn has decided.
  func beginUnreadReads() {
    while let read = unread.next() { jobs.append(.readUnread(read)) }
  }

  nonisolated func readUnread(_ read: UnreadReads.Read) async {
    guard let historyStream else { return inbox.offer(.unreadRead(read.number, nil)) }
    let log = try? await readLog(of: read.user, in: historyStream)
    inbox.offer(.unreadRead(read.number, log))
  }

  func unreadRead(_ number: UInt64, _ log: HistoryLog?) {
    metrics.historyReads.increment()
    if log == nil { metrics.historyReadsFailed.increment() }
    let pushes = unread.ended(number)
    guard let log else { return sendUncounted(pushes) }
    for push in pushes {
      var job = push.job
      job.unread = log.unread(with: push.missed)
      enqueue(job, push.term)
    }
  }

  /// A push without its number is better than a late one.
  func sendUncounted(_ pushes: [UnreadReads.Push]) {
    for push in pushes {
      metrics.pushesUncounted.increment()
      enqueue(push.job, push.term)
    }
  }
}
