//! What waits for what.
//!
//! Nodes are commands, requests, and joins and waits, which take no time and stand for others together. An edge leads
//! from a node to one that waits for it. A node knows how many it waits for and is told when the last has ended; it
//! then leaves its place to another. A [`Token`] names a node for ever: once the node has ended, nothing needs to wait
//! for it any more, and the token says so.
//!
//! Nodes and edges lie in two arenas whose places are used again, so that nothing is allocated once as many commands
//! have been under way together as ever will.

use super::Command;
use alloc::vec::Vec;

/// No place.
pub(super) const NONE: u32 = u32::MAX;

/// The name of a node: generation and place. 0 names nothing, for which nothing waits.
pub(crate) type Token = u64;

/// What a node stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// Nothing: the place is free.
    Free,
    /// Several nodes together; its command says on which die the last of them ended.
    Join,
    /// A page's chain, and a collection that it waits for and does not go through. Its command says on which die the
    /// collection ended.
    Wait,
    /// A host request: it waits for its pages.
    Request,
    /// A flash command.
    Command,
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) role: Role,
    /// Nodes that this one waits for, and one more while others may still be added.
    pub(super) waits: u32,
    generation: u32,
    first_edge: u32,
    last_edge: u32,
    /// By which step of a page's chain it was reached, and when: of those that it waits for in its chain the one that
    /// ended last, among equals the one that was issued first. Of a command that has ended, itself. A wait stands
    /// between two commands in the order of issue, so commands have odd numbers there.
    pub(super) step: u32,
    pub(super) reached_ns: u64,
    pub(super) issued: u64,
    pub(super) command: Command,
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    to: u32,
    next: u32,
    /// Whether it is one of a chain; others keep the data right, or say that a page waits for a collection.
    is_chain: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    free_nodes: Vec<u32>,
    edges: Vec<Edge>,
    free_edge: u32,
    /// Nodes that have just ended and have not been taken out yet.
    ended: Vec<u32>,
    /// Commands, requests and waits that wait for nothing any more, in the order in which that came about.
    pub(super) ready: Vec<u32>,
}

impl Graph {
    pub(super) fn new() -> Graph {
        Graph {
            nodes: Vec::new(),
            free_nodes: Vec::new(),
            edges: Vec::new(),
            free_edge: NONE,
            ended: Vec::new(),
            ready: Vec::new(),
        }
    }

    /// Nodes in use.
    pub(super) fn len(&self) -> usize {
        self.nodes.len() - self.free_nodes.len()
    }

    /// A new node that waits for `waits` things that are no nodes.
    #[inline]
    pub(super) fn add(&mut self, role: Role, waits: u32, command: Command, now_ns: u64) -> u32 {
        let (step, reached_ns) = (NONE, now_ns);
        let Some(place) = self.free_nodes.pop() else {
            let (first_edge, last_edge) = (NONE, NONE);
            let issued = 0;
            let node = Node { role, waits, generation: 1, first_edge, last_edge, step, reached_ns, issued, command };
            self.nodes.push(node);
            return self.nodes.len() as u32 - 1;
        };
        let node = &mut self.nodes[place as usize];
        (node.role, node.waits, node.command) = (role, waits, command);
        (node.step, node.reached_ns, node.issued) = (step, reached_ns, 0);
        place
    }

    #[inline(always)]
    pub(super) fn token(&self, place: u32) -> Token {
        u64::from(self.nodes[place as usize].generation) << 32 | u64::from(place + 1)
    }

    /// The node's place, if it has not ended.
    #[inline(always)]
    pub(super) fn find(&self, token: Token) -> Option<u32> {
        let place = (token as u32).checked_sub(1)?;
        let node = self.nodes.get(place as usize)?;
        (u64::from(node.generation) == token >> 32).then_some(place)
    }

    /// `to` waits for `from` in its chain, unless that has ended.
    #[inline]
    pub(super) fn wait(&mut self, to: u32, from: Token) {
        self.add_edge(to, from, true);
    }

    /// `to` waits for `from` beside its chain, unless that has ended.
    #[inline]
    pub(super) fn wait_beside(&mut self, to: u32, from: Token) {
        self.add_edge(to, from, false);
    }

    #[inline]
    fn add_edge(&mut self, to: u32, from: Token, is_chain: bool) {
        let Some(from) = self.find(from) else { return };
        let edge = Edge { to, next: NONE, is_chain };
        let place = if self.free_edge == NONE {
            self.edges.push(edge);
            self.edges.len() as u32 - 1
        } else {
            let place = self.free_edge;
            self.free_edge = self.edges[place as usize].next;
            self.edges[place as usize] = edge;
            place
        };
        let from = &mut self.nodes[from as usize];
        let last = core::mem::replace(&mut from.last_edge, place);
        if last == NONE {
            from.first_edge = place;
        } else {
            self.edges[last as usize].next = place;
        }
        self.nodes[to as usize].waits += 1;
    }

    /// One of the things that a node waits for, and that is no node, is there.
    pub(super) fn release(&mut self, place: u32) {
        let node = &mut self.nodes[place as usize];
        node.waits -= 1;
        if node.waits == 0 {
            match node.role {
                Role::Join => self.end(place),
                _ => self.ready.push(place),
            }
        }
    }

    /// A node has ended: whatever waits for nothing else is ready, and the node is gone.
    #[inline]
    pub(super) fn end(&mut self, place: u32) {
        self.ended.push(place);
        while let Some(place) = self.ended.pop() {
            let node = &mut self.nodes[place as usize];
            debug_assert!(node.role != Role::Free && node.waits == 0, "a node ends once, when nothing holds it");
            let mut edge = core::mem::replace(&mut node.first_edge, NONE);
            node.last_edge = NONE;
            node.role = Role::Free;
            node.generation = node.generation.wrapping_add(1).max(1);
            let (step, reached_ns, issued, die) = (node.step, node.reached_ns, node.issued, node.command.die);
            self.free_nodes.push(place);
            while edge != NONE {
                let Edge { to, next, is_chain } = self.edges[edge as usize];
                self.edges[edge as usize].next = core::mem::replace(&mut self.free_edge, edge);
                let waiting = &mut self.nodes[to as usize];
                let is_later = reached_ns > waiting.reached_ns
                    || reached_ns == waiting.reached_ns && waiting.step != NONE && issued < waiting.issued;
                if is_chain && is_later {
                    (waiting.step, waiting.reached_ns, waiting.issued) = (step, reached_ns, issued);
                }
                let tells_die =
                    if is_chain { is_later && waiting.role == Role::Join } else { waiting.role == Role::Wait };
                if tells_die {
                    waiting.command.die = die;
                }
                waiting.waits -= 1;
                if waiting.waits == 0 {
                    match waiting.role {
                        Role::Join => self.ended.push(to),
                        _ => self.ready.push(to),
                    }
                }
                edge = next;
            }
        }
    }
}
