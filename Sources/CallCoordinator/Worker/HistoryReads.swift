package import CallCore

/// The histories that a worker is to read: for commands of users, and for the states that sessions show.
///
/// The latter are at most one for each user with a session (`HistoryBoard`). Commands have limits, in all and for each
/// user. Policy: refuse.
package struct HistoryReads {
  package struct Item: Sendable, Equatable {
    package var term: ShardTerm
    package var user: UserKey
    /// nil: the state is wanted.
    package var question: Question?
    /// A mark that the store must have first.
    package var mark: HistoryCursor?

    package init(term: ShardTerm, user: UserKey, question: Question) {
      (self.term, self.user, self.question) = (term, user, question)
      if case .markRead(let cursor) = question.command { mark = cursor }
    }

    package init(term: ShardTerm, user: UserKey, storing mark: HistoryCursor? = nil) {
      (self.term, self.user, self.mark) = (term, user, mark)
    }
  }

  package struct Question: Sendable, Equatable {
    package var session: SessionRef
    package var request: UInt64
    package var command: HistoryCommand
    package init(session: SessionRef, request: UInt64, command: HistoryCommand) {
      self.session = session
      self.request = request
      self.command = command
    }
  }

  /// The most questions of one user, so that no user keeps the others waiting.
  package static let questionsOfUserMax = 4

  private let atOnce: Int
  private let questionsMax: Int
  private var waiting: [Item] = []
  /// Before this, all of `waiting` are begun.
  private var head = 0
  private var questions = 0
  private var questionsOf: [UserKey: Int] = [:]
  private var underWay = 0

  package init(atOnce: Int, questionsMax: Int) {
    self.atOnce = atOnce
    self.questionsMax = questionsMax
  }

  package var count: Int { waiting.count - head + underWay }

  /// - Returns: false where it is refused.
  package mutating func add(_ item: Item) -> Bool {
    if item.question != nil {
      let ofUser = questionsOf[item.user, default: 0]
      guard questions < questionsMax, ofUser < Self.questionsOfUserMax else { return false }
      questions += 1
      questionsOf[item.user] = ofUser + 1
    }
    waiting.append(item)
    return true
  }

  /// The next one to be begun; nil where none is, or enough are under way.
  package mutating func next() -> Item? {
    guard head < waiting.count, underWay < atOnce else { return nil }
    defer {
      head += 1
      if head == waiting.count || head > 1024 {
        waiting.removeFirst(head)
        head = 0
      }
    }
    underWay += 1
    return waiting[head]
  }

  /// A read that was begun has ended.
  package mutating func ended(_ item: Item) {
    underWay -= 1
    guard item.question != nil else { return }
    questions -= 1
    let left = (questionsOf[item.user] ?? 1) - 1
    questionsOf[item.user] = left > 0 ? left : nil
  }
}
